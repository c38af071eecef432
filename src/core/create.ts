/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Makes the tensor API's engine. Models use the same backend, graph, plans and kernels (src/engine/); here the graph is the caller's.
 */
import { QuantletError, tell } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';
import { SYNC_SIZE, type Layout } from '../graph/layout.ts';
import { lower, type OpRecord } from '../graph/lower.ts';
import { isTensor } from '../graph/operands.ts';
import { canPack, packedBytes, isDense, readsPacked, repackRecord } from '../graph/packing.ts';
import { createGraphPlan, expand, placePlan, planBytes, type GraphPlan } from '../graph/plan.ts';
import { fourDims, isContiguous, leaf, nbytes, refuse, shape, type Tensor } from '../graph/tensor.ts';
import { mustBeReadable } from '../graph/vec-dot-type.ts';
import { checkOptions, isPlain, KIND, oneOf, type Kinds } from '../options.ts';
import { THREADS } from '../threads/executor.ts';
import { createCpuBackend } from '../engine/cpu-backend.ts';
import type { Platform } from '../engine/platform.ts';
import { firstInvalidBlock } from '../quantize/validate.ts';
import { TYPE, typeNamed, type TypeTraits } from '../type-traits.ts';
import type { Kernels } from '../wasm/abi.ts';
import { ALIGN, createAllocator } from '../wasm/allocator.ts';
import { instantiate, isaOf } from '../wasm/load.ts';
import { ARENA_BASE, mebibytes } from '../wasm/memory.ts';
import { arrayOver, bytesFor, floats, gather, isPlainType, type Data, type DataOf, type ReadAs, type TensorData } from './data.ts';
import type { ComputeOptions, Engine, EngineOptions, Plan, TensorOptions } from './engine.ts';
import { explainPlan } from './explain.ts';
import { checkIndices, indexChecks, type IndexCheck } from './indices.ts';
import { loadTensors } from './load.ts';

const DEFAULT_BYTES = 64 << 20;
const PACKED =
  'is packed; only mul_mat and get_rows read it (mul_mat_id where there are several matrices), and none of them for activations of MX or f32 precision';

interface Made {
  readonly graph: GraphPlan;
  readonly at: number;
  readonly bytes: number;
  readonly planAt: number;
  readonly checks: readonly IndexCheck[];
  /** The leaves it reads, and whether they were packed when it was made. */
  readonly leaves: readonly (readonly [Tensor, Layout])[];
  /** Addresses of the results that are no views. */
  readonly results: ReadonlyMap<Tensor, number>;
  /** Calls of compute() that have not ended. */
  computing: number;
}

/** `wasm` is an option of entry/core.ts, which has taken it by now. */
const ENGINE_OPTIONS: Kinds<EngineOptions & { wasm?: unknown }> = {
  threads: THREADS,
  memoryBytes: KIND.size,
  build: KIND.string,
  turbo: KIND.turbo,
  wasm: KIND.any,
};
const TENSOR_OPTIONS: Kinds<TensorOptions> = { data: KIND.any, name: KIND.string };

const baseOf = (t: Tensor): Tensor => t.viewOf ?? t;

export async function createEngineOn(platform: Platform, options?: EngineOptions): Promise<Engine> {
  const {
    threads: wanted,
    memoryBytes: bytes = DEFAULT_BYTES,
    build: asked,
    turbo: wish,
  } = checkOptions('createEngine', options, ENGINE_OPTIONS);
  const backend = await createCpuBackend(platform, {
    build: asked,
    threads: wanted,
    turbo: wish,
  });
  const end = ARENA_BASE + SYNC_SIZE + ALIGN + bytes;
  const { build, threads } = backend;
  const { turbo, module } = await backend.compiled();
  const use = { what: `an engine with memoryBytes ${bytes}`, remedy: 'choose fewer memoryBytes' };
  const { memory, executor } = await backend.startHere(end, use).catch(async (error: unknown) => {
    await backend.close();
    throw error;
  });
  const { buffer } = memory;
  const arena = createAllocator(ARENA_BASE + SYNC_SIZE, end);

  const self = {};
  const sizes = new Map<Tensor, number>();
  /** In the order in which they were made. */
  const made = new Map<Plan, Made>();
  /** Constants of graphs lie in memory once, for all plans that read them. */
  const constants = new Map<Tensor, { readonly at: number; plans: number }>();
  let disposed = false;
  let running = 0;
  let ownKernels: Kernels | undefined;
  let turn: Promise<void> = Promise.resolve();

  const alive = (what: string): void => {
    if (disposed) throw new QuantletError('ERR_DISPOSED', `${what}: the engine was disposed of; create another`);
  };
  const take = (n: number, what: string): number => {
    if (!arena.fits(n))
      throw new QuantletError(
        'ERR_OUT_OF_MEMORY',
        `${what} needs ${mebibytes(n)}, the engine has ${mebibytes(arena.freeBytes)} left in all; create it with more memoryBytes, or free tensors and plans`,
      );
    return arena.take(n);
  };
  /** @throws ERR_INVALID_ARGUMENT for what is no tensor, or one of another engine, or a view of one that was freed */
  const own = (what: string, t: Tensor): void => {
    if (!isTensor(t)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: expected a tensor, got ${tell(t)}`);
    if (t.owner !== undefined && t.owner !== self)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(t)} belongs to another engine; read it there and write it here`);
    const base = baseOf(t);
    if (base.op === 'leaf' && !base.values && !sizes.has(base))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(base)} was freed`);
  };
  const addressOf = (what: string, t: Tensor): number => {
    const base = baseOf(t);
    if (base.layout === 'packed') refuse(what, PACKED, base);
    if (base.op === 'leaf') return base.data + t.viewOffset;
    const at = [...made.values()].findLast((m) => m.results.has(base))?.results.get(base);
    if (at === undefined)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${what}: ${shape(t)} is an intermediate tensor or its plan was disposed of; name it in plan() to keep it`,
      );
    return at + t.viewOffset;
  };
  const bytesOf = (what: string, t: Tensor): Uint8Array => {
    alive(what);
    own(what, t);
    const values = baseOf(t).values?.();
    return values ? values.subarray(t.viewOffset, t.viewOffset + nbytes(t)) : new Uint8Array(buffer, addressOf(what, t), nbytes(t));
  };
  /** i32 of a leaf that lies without gaps, while it is there. */
  const readableNow = (t: Tensor): Int32Array | undefined => {
    const base = baseOf(t);
    if (base.op !== 'leaf' || !isContiguous(t) || (!base.values && (disposed || !sizes.has(base)))) return undefined;
    const bytes = base.values?.() ?? new Uint8Array(buffer, base.data, nbytes(base));
    return new Int32Array(bytes.slice(t.viewOffset, t.viewOffset + nbytes(t)).buffer);
  };
  const idle = (what: string): void => {
    if (running > 0) throw new QuantletError('ERR_BUSY', `${what}: a plan is running; await compute() first`);
  };

  const inTurn = async (work: () => Promise<void>): Promise<void> => {
    const before = turn;
    let done!: () => void;
    turn = new Promise((resolve) => (done = resolve));
    running++;
    try {
      await before;
      await work();
    } finally {
      running--;
      done();
    }
  };

  const hold = (c: Tensor): void => {
    const known = constants.get(c);
    if (known) known.plans++;
    else {
      const at = take(nbytes(c), `the constant ${shape(c)}`);
      new Uint8Array(buffer, at, nbytes(c)).set(c.values!());
      constants.set(c, { at, plans: 1 });
    }
    c.data = constants.get(c)!.at;
  };
  const release = (c: Tensor): void => {
    const known = constants.get(c)!;
    if (--known.plans > 0) return;
    arena.give(known.at, nbytes(c));
    constants.delete(c);
  };

  /** Plans records, gives the plan memory and writes it there; where that throws, nothing is taken. */
  const encoded = (records: readonly OpRecord[], keep: readonly Tensor[]): Pick<Made, 'graph' | 'at' | 'bytes' | 'planAt'> => {
    const graph = createGraphPlan(records, keep);
    const total = planBytes(graph, threads);
    const at = take(total, 'the plan');
    const held: Tensor[] = [];
    try {
      for (const c of graph.constants) {
        hold(c);
        held.push(c);
      }
    } catch (error) {
      held.forEach(release);
      arena.give(at, total);
      throw error;
    }
    const placed = placePlan(graph, at, threads);
    new Uint8Array(buffer).set(placed.encode(), placed.at);
    return { graph, at, bytes: total, planAt: placed.at };
  };

  /** A new tensor with memory that is not filled yet. */
  const allot = <T extends string>(traits: TypeTraits<T>, ne: readonly number[], name: string): Tensor<T> => {
    const dims = fourDims('tensor', ne);
    const t = leaf(name, traits, dims, undefined, self);
    if (dims[0] % traits.blckSize !== 0) refuse('tensor', `ne0 is no multiple of the block of ${traits.blckSize}`, t);
    // Quantised matrices are mostly packed sooner or later: they get the room for that at once.
    const n = traits.blckSize > 1 && canPack(t) ? packedBytes(t) : nbytes(t);
    t.data = take(n, `the tensor ${shape(t)}`);
    sizes.set(t, n);
    return t;
  };
  const drop = (t: Tensor): void => {
    arena.give(t.data, sizes.get(t)!);
    sizes.delete(t);
  };

  /** Rows of blocks as f32; the kernel reads and writes them in the arena. */
  const dequantised = (t: Tensor, blocks: Uint8Array): Float32Array => {
    mustBeReadable('read', t);
    ownKernels ??= instantiate(module, memory);
    const n = t.ne[0];
    const row = (n / t.type.blckSize) * t.type.typeSize;
    const out = new Float32Array((blocks.length / row) * n);
    const from = take(row + ALIGN + 4 * n, 'a row to dequantise');
    const to = from + alignUp(row, ALIGN);
    for (let r = 0; r * row < blocks.length; r++) {
      new Uint8Array(buffer, from, row).set(blocks.subarray(r * row, (r + 1) * row));
      ownKernels.dequantize_row(t.type.id, from, to, n);
      out.set(new Float32Array(buffer, to, n), r * n);
    }
    arena.give(from, row + ALIGN + 4 * n);
    return out;
  };

  const engine: Engine = {
    build,
    threads,
    turbo,
    get freeBytes() {
      return arena.freeBytes;
    },
    tensor(type, ne, given) {
      alive('tensor');
      const traits = typeNamed(type) as TypeTraits<typeof type> | undefined;
      if (!traits)
        throw new QuantletError(
          'ERR_INVALID_ARGUMENT',
          `tensor: there is no type ${tell(type)}; expected one of ${Object.keys(TYPE).join(', ')}`,
        );
      const { data, name = '' } = isPlain(given)
        ? checkOptions<TensorOptions>('tensor', given as TensorOptions, TENSOR_OPTIONS)
        : { data: given as Data };
      const t = allot(traits, ne, name);
      const target = new Uint8Array(buffer, t.data, sizes.get(t));
      try {
        const source = data === undefined ? undefined : bytesFor(t, data);
        target.fill(0, source?.length ?? 0);
        if (source) target.set(source);
      } catch (error) {
        drop(t);
        throw error;
      }
      return t;
    },
    async load(source: Parameters<Engine['load']>[0], names: string | readonly string[], options?: { signal?: AbortSignal }) {
      alive('load');
      const loaded = await loadTensors(platform, source, names, options, {
        make(type, ne, name) {
          alive('load');
          const t = allot(type, ne, name);
          return { t, bytes: new Uint8Array(buffer, t.data, sizes.get(t)).subarray(0, nbytes(t)) };
        },
        drop: (t) => void (disposed || drop(t)),
      });
      alive('load');
      return (Array.isArray(names) ? loaded : loaded[0]) as never;
    },
    free(t) {
      alive('free');
      own('free', t);
      idle('free');
      if (t.op !== 'leaf' || t.values) refuse('free', 'is no tensor of tensor(); plans own their results', t);
      drop(t);
    },
    write(t, data) {
      const target = bytesOf('write', t);
      idle('write');
      if (baseOf(t).values) refuse('write', 'is numbers that the graph brought along', t);
      target.set(bytesFor(t, data));
    },
    read<T extends string>(t: Tensor<T>, options?: { as?: ReadAs }) {
      const { as } = checkOptions<{ as?: ReadAs }>('read', options, { as: oneOf('f32', 'f64') });
      const bytes = gather(t, bytesOf('read', t));
      if (!as) return arrayOver(t, bytes) as DataOf<T>;
      const numbers = isPlainType(t) ? floats(t, bytes, as) : dequantised(t, bytes);
      return (as === 'f64' ? Float64Array.from(numbers) : numbers) as never;
    },
    view<T extends string>(t: Tensor<T>) {
      const bytes = bytesOf('view', t);
      if (!isContiguous(t)) refuse('view', 'is not contiguous', t);
      return arrayOver(t, bytes) as DataOf<T>;
    },
    async pack(t) {
      bytesOf('pack', t);
      if (t.op !== 'leaf' || t.values) refuse('pack', 'only whole matrices are packed', t);
      if (!canPack(t)) return false;
      idle('pack');
      // The packed kernels take scales apart as finite numbers; the plain ones give what ggml gives.
      if (t.type.blckSize > 1 && firstInvalidBlock(t.type, new Uint8Array(buffer, t.data, nbytes(t))) >= 0) return false;
      const from = t.data;
      const had = sizes.get(t)!;
      const need = packedBytes(t);
      const moves = need > had;
      const to = moves ? take(need, `the packed ${shape(t)}`) : from;
      let parts: ReturnType<typeof encoded>;
      try {
        parts = encoded([repackRecord({ ...t, data: to })], []);
      } catch (error) {
        if (moves) arena.give(to, need);
        throw error;
      }
      if (moves) new Uint8Array(buffer).copyWithin(to, from, from + had).fill(0, to + had, to + need);
      let done = false;
      try {
        await inTurn(() => executor.run({ passes: [{ plan: parts.planAt, from: 0, to: 1 }], nTokens: 0, nOutputs: 0 }));
        done = true;
      } finally {
        if (!disposed) {
          arena.give(parts.at, parts.bytes);
          // Where a worker was lost, a matrix that was packed in place is half packed, and is freed.
          if (moves) arena.give(done ? from : to, done ? had : need);
          else if (!done) drop(t);
        }
      }
      t.data = to;
      t.layout = 'packed';
      sizes.set(t, moves ? need : had);
      return true;
    },
    plan(...wanted) {
      alive('plan');
      for (const t of wanted) own('plan', t);
      const nodes = expand(wanted);
      for (const t of nodes) {
        own('plan', t);
        t.src.forEach((s, i) => {
          if (s?.layout === 'packed' && !readsPacked(t, i)) refuse(t.op, PACKED, s);
          if (s?.layout === 'plain' && isDense(t.op, i)) refuse(t.op, 'dense must be packed; pack() it before the plan is made', s);
        });
      }
      const parts = encoded(lower(nodes, { isa: isaOf(build) }), wanted);
      const { graph } = parts;
      const plan: Plan = {
        explain: () => explainPlan(graph, { threads, ints: readableNow }),
        dispose() {
          const known = made.get(plan);
          if (disposed || !known) return;
          if (known.computing > 0) throw new QuantletError('ERR_BUSY', 'dispose: the plan is running; await compute() first');
          made.delete(plan);
          graph.constants.forEach(release);
          arena.give(parts.at, parts.bytes);
        },
      };
      const results = new Map(
        wanted
          .map(baseOf)
          .filter((t) => t.op !== 'leaf')
          .map((t) => [t, t.data]),
      );
      made.set(plan, {
        ...parts,
        results,
        computing: 0,
        checks: indexChecks(nodes),
        leaves: nodes.filter((t) => t.op === 'leaf' && !t.values).map((t) => [t, t.layout]),
      });
      return plan;
    },
    async compute(plan, options) {
      alive('compute');
      const { signal } = checkOptions<ComputeOptions>('compute', options, { signal: KIND.signal });
      const known = made.get(plan);
      if (!known)
        throw new QuantletError(
          'ERR_INVALID_ARGUMENT',
          typeof plan?.explain === 'function'
            ? 'compute: the plan was disposed of or belongs to another engine'
            : `compute: expected a plan, got ${tell(plan)}`,
        );
      known.computing++;
      await inTurn(async () => {
        alive('compute');
        for (const [t, layout] of known.leaves) {
          own('compute', t);
          if (t.layout !== layout) refuse('compute', 'was packed after the plan was made; make the plan again', t);
        }
        const valuesOf = (t: Tensor): TensorData => arrayOver(t, bytesOf('compute', t));
        for (const check of known.checks) checkIndices(check, valuesOf(check.indices), check.counts && valuesOf(check.counts));
        await executor.run({ passes: [{ plan: known.planAt, from: 0, to: known.graph.records.length }], nTokens: 0, nOutputs: 0 }, signal);
      }).finally(() => known.computing--);
    },
    async dispose() {
      if (disposed) return;
      disposed = true;
      await executor.dispose();
    },
    [Symbol.asyncDispose]: () => engine.dispose(),
  };
  return engine;
}
