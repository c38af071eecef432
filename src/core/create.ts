/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Creates the engine of the tensor API. Models use the same backend, graph, plans and kernels
 * (src/run/); here the graph is the caller's.
 */
import { createCpuBackend } from '../threads/cpu-backend.ts';
import type { Platform } from '../platform.ts';
import { QuantletError, tell } from '../errors.ts';
import { alignUp } from '../align.ts';
import { SYNC_SIZE } from '../graph/layout.ts';
import { baseOf, isContiguous, nbytes, refuse, type Tensor } from '../graph/tensor.ts';
import { mustBeReadable } from '../graph/vec-dot-type.ts';
import { checkOptions, isPlain, KIND, oneOf, type Kinds } from '../options.ts';
import { THREADS } from '../threads/executor.ts';
import { TYPE, typeNamed, type TypeTraits } from '../type-traits.ts';
import type { Kernels } from '../wasm/abi.ts';
import { ALIGN } from '../wasm/allocator.ts';
import { instantiate } from '../wasm/load.ts';
import { ARENA_BASE } from '../wasm/memory.ts';
import { arrayOver, bytesFor, floats, gather, isPlainType, type Data, type DataOf, type ReadAs } from './data.ts';
import type { ComputeOptions, Engine, EngineOptions, TensorOptions } from './engine.ts';
import { loadTensors } from './load.ts';
import { packTensor } from './pack.ts';
import { Plans } from './plans.ts';
import { TensorMemory } from './tensor-memory.ts';
import { Turns } from './turns.ts';

const DEFAULT_BYTES = 64 << 20;

/** `wasm` is an option of entry/core.ts, which has already used it. */
const ENGINE_OPTIONS: Kinds<EngineOptions & { wasm?: unknown }> = {
  threads: THREADS,
  memoryBytes: KIND.size,
  build: KIND.string,
  turbo: KIND.turbo,
  wasm: KIND.any,
};
const TENSOR_OPTIONS: Kinds<TensorOptions> = { data: KIND.any, name: KIND.string };

export async function createEngineOn(platform: Platform, options?: EngineOptions): Promise<Engine> {
  const { threads: asked, memoryBytes = DEFAULT_BYTES, build: wanted, turbo: wish } = checkOptions('createEngine', options, ENGINE_OPTIONS);
  const backend = await createCpuBackend(platform, { build: wanted, threads: asked, turbo: wish });
  const { build, threads } = backend;
  const { turbo, module } = await backend.compiled();
  const end = ARENA_BASE + SYNC_SIZE + ALIGN + memoryBytes;
  const use = { what: `an engine with memoryBytes ${memoryBytes}`, remedy: 'choose fewer memoryBytes' };
  const { memory: wasmMemory, executor } = await backend.startHere(end, use).catch(async (error: unknown) => {
    await backend.close();
    throw error;
  });
  const memory = new TensorMemory(wasmMemory.buffer, ARENA_BASE + SYNC_SIZE, end);
  const turns = new Turns();
  const plans = new Plans(memory, executor, turns, build);
  const dequantize = createDequantizer(memory, () => instantiate(module, wasmMemory));

  const engine: Engine = {
    build,
    threads,
    turbo,
    get freeBytes() {
      return memory.freeBytes;
    },
    tensor: (type, ne, given) => newTensor(memory, type, ne, given),
    async load(source: Parameters<Engine['load']>[0], names: string | readonly string[], options?: { signal?: AbortSignal }) {
      memory.mustLive('load');
      const loaded = await loadTensors(platform, source, names, options, {
        make(type, ne, name) {
          memory.mustLive('load');
          const t = memory.allocate(type, ne, name);
          return { t, bytes: memory.allocated(t).subarray(0, nbytes(t)) };
        },
        drop: (t) => void (memory.disposed || memory.free(t)),
      });
      memory.mustLive('load');
      return (Array.isArray(names) ? loaded : loaded[0]) as never;
    },
    free(t) {
      memory.mustLive('free');
      memory.mustOwn('free', t);
      turns.mustBeIdle('free');
      if (t.op !== 'leaf' || t.values) refuse('free', 'was not made by tensor(); plans own their results', t);
      memory.free(t);
    },
    write(t, data) {
      const target = memory.bytesOf('write', t);
      turns.mustBeIdle('write');
      if (baseOf(t).values) refuse('write', 'is a constant of the graph', t);
      target.set(bytesFor(t, data));
    },
    read<T extends string>(t: Tensor<T>, options?: { as?: ReadAs }) {
      const { as } = checkOptions<{ as?: ReadAs }>('read', options, { as: oneOf('f32', 'f64') });
      const bytes = gather(t, memory.bytesOf('read', t));
      if (!as) return arrayOver(t, bytes) as DataOf<T>;
      const numbers = isPlainType(t) ? floats(t, bytes, as) : dequantize(t, bytes);
      return (as === 'f64' ? Float64Array.from(numbers) : numbers) as never;
    },
    view<T extends string>(t: Tensor<T>) {
      const bytes = memory.bytesOf('view', t);
      if (!isContiguous(t)) refuse('view', 'is not contiguous', t);
      return arrayOver(t, bytes) as DataOf<T>;
    },
    pack: (t) => packTensor(memory, plans, turns, t),
    plan(...wanted) {
      memory.mustLive('plan');
      return plans.create(wanted);
    },
    async compute(plan, options) {
      memory.mustLive('compute');
      const asked = checkOptions<ComputeOptions>('compute', options, { signal: KIND.signal, onProgress: KIND.function });
      await plans.compute(plan, asked);
    },
    async dispose() {
      if (memory.disposed) return;
      memory.disposed = true;
      await executor.dispose();
    },
    [Symbol.asyncDispose]: () => engine.dispose(),
  };
  return engine;
}

/** @see Engine.tensor */
function newTensor<T extends string>(memory: TensorMemory, type: T, ne: readonly number[], given?: Data | TensorOptions): Tensor<T> {
  memory.mustLive('tensor');
  const traits = typeNamed(type) as TypeTraits<T> | undefined;
  if (!traits)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `tensor: there is no type ${tell(type)}; expected one of ${Object.keys(TYPE).join(', ')}`,
    );
  const { data, name = '' } = isPlain(given)
    ? checkOptions<TensorOptions>('tensor', given as TensorOptions, TENSOR_OPTIONS)
    : { data: given as Data };
  const t = memory.allocate(traits, ne, name);
  const target = memory.allocated(t);
  try {
    const source = data === undefined ? undefined : bytesFor(t, data);
    target.fill(0, source?.length ?? 0);
    if (source) target.set(source);
  } catch (error) {
    memory.free(t);
    throw error;
  }
  return t;
}

/**
 * Dequantises rows of blocks to f32, one at a time, with kernels of its own, so that it does not
 * wait for a running plan.
 */
function createDequantizer(memory: TensorMemory, load: () => Kernels): (t: Tensor, blocks: Uint8Array) => Float32Array {
  let kernels: Kernels | undefined;
  return (t, blocks) => {
    mustBeReadable('read', t);
    kernels ??= load();
    const n = t.ne[0];
    const row = (n / t.type.blckSize) * t.type.typeSize;
    const out = new Float32Array((blocks.length / row) * n);
    const from = memory.take(row + ALIGN + 4 * n, 'a row to dequantise');
    const to = from + alignUp(row, ALIGN);
    for (let r = 0; r * row < blocks.length; r++) {
      memory.bytes(from, row).set(blocks.subarray(r * row, (r + 1) * row));
      kernels.dequantize_row(t.type.id, from, to, n);
      out.set(new Float32Array(memory.buffer, to, n), r * n);
    }
    memory.give(from, row + ALIGN + 4 * n);
    return out;
  };
}
