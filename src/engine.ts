/** A model made runnable: graph planned, memory made once, weights streamed into it, threads started. */
import { findArchitecture, type GraphInputs, type HParams } from './arch/architecture.ts';
import { ropeTable, type RopeParams } from './arch/rope-table.ts';
import { QuantletError } from './errors.ts';
import { getArchitecture } from './gguf/metadata.ts';
import type { OpenedGGUF } from './gguf/split.ts';
import type { TensorInfo } from './gguf/types.ts';
import { ATTENTION_PART, SYNC_SIZE } from './graph/layout.ts';
import { lower, type Record } from './graph/lower.ts';
import { createPlan, encodePlan, expand, place, type Plan } from './graph/plan.ts';
import { leaf, nbytes, type Ne, type Tensor } from './graph/tensor.ts';
import type { Platform } from './platform.ts';
import type { Batch } from './scheduler.ts';
import type { Bytes } from './source.ts';
import type { Executor } from './threads/executor.ts';
import { createShared } from './threads/shared.ts';
import { createSingle } from './threads/single.ts';
import { TYPE } from './type-traits.ts';
import { isThreaded, kernelFacts, pickBuild, type Build } from './wasm/load.ts';
import { MEMORY_LIMIT, createLayout, createMemory } from './wasm/memory.ts';

export interface EngineOptions {
  /** Tokens of the model's vocabulary. */
  nVocab: number;
  threads: number | undefined;
  build: string | undefined;
  /** Tokens of one sequence at most; 0: what the model was trained for. Undefined: that, or DEFAULT_CONTEXT if it is more. */
  contextLength: number | undefined;
  /** Sequences at once. */
  parallel: number;
  /** Tokens of one step at most. */
  batchSize: number;
  /** Logits of one step at most. */
  maxOutputs: number;
  signal: AbortSignal | undefined;
  onProgress: ((progress: { loaded: number; total: number }) => void) | undefined;
}

/** Caches grow with the context: a model trained for 128k tokens would take gigabytes that few conversations use. */
const DEFAULT_CONTEXT = 4096;
/** Bytes read at once: large enough for disks and HTTP, small enough to report progress and stop soon. */
const READ_BYTES = 8 << 20;

/** Steps of up to so many tokens read the weights without reusing them: memory, and for small models the barriers, decide their speed. */
const FEW_TOKENS = 4;

export interface Engine {
  readonly executor: Executor;
  readonly build: Build;
  readonly hparams: HParams;
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole attention parts. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  readonly memoryBytes: number;
  /** The plan and its address: for benches that time single records. */
  readonly plan: Plan;
  readonly planAt: number;
  /** Threads for a step of few tokens; warm-up sets it to what is fastest for this model on this machine. */
  generationThreads: number;
  step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array>;
}

const up = (n: number, multiple: number): number => Math.ceil(n / multiple) * multiple;

export async function createEngine(platform: Platform, { gguf, parts }: OpenedGGUF, options: EngineOptions): Promise<Engine> {
  const architecture = findArchitecture(getArchitecture(gguf));
  const hparams = architecture.hparams(gguf);
  if (hparams.nVocab !== options.nVocab) throw new QuantletError('ERR_GGUF_INVALID', `the metadata says that the vocabulary has ${hparams.nVocab} tokens, but it lists ${options.nVocab}: the file is damaged`);
  const build = pickBuild(platform.features(), options.build || platform.forcedBuild());
  const threads = isThreaded(build) ? (options.threads ?? platform.defaultThreads()) : 1;
  const module = await platform.module(build);
  options.signal?.throwIfAborted();
  const facts = kernelFacts(module, isThreaded(build));
  const wanted = options.contextLength || (options.contextLength === 0 ? hparams.nCtxTrain : Math.min(hparams.nCtxTrain, DEFAULT_CONTEXT));
  // A context nobody asked for shrinks to what fits; one that was asked for must fit.
  let model = describe(wanted);
  for (let n = wanted; !options.contextLength && model.layout.byteLength > MEMORY_LIMIT && n > 2 * ATTENTION_PART; ) model = describe((n = n >> 1));

  const executor = await start(module, model.layout.byteLength, model.syncAt);
  try {
    await executor.write(model.planAt, encodePlan(model.plan, model.planAt, model.scratchAt));
    await executor.write(model.packingAt, encodePlan(model.packing, model.packingAt, model.scratchAt));
    for (const { data, values } of model.plan.constants) await executor.write(data, values!);
    for (const { tensor, params } of model.tables) await executor.write(tensor.data, new Uint8Array(ropeTable(params, tensor.ne[1]).buffer));
    await readWeights(executor, parts, model, options);
  } catch (error) {
    await executor.dispose();
    throw error;
  }
  const engine: Engine = { executor, build, hparams, contextLength: model.contextLength, slotCells: model.slotCells, batchSize: model.batchSize, maxOutputs: model.maxOutputs, memoryBytes: model.layout.byteLength, plan: model.plan, planAt: model.planAt, generationThreads: threads, step };
  return engine;

  async function start(module: WebAssembly.Module, memoryBytes: number, sync: number): Promise<Executor> {
    if (isThreaded(build)) {
      const memory = createMemory(memoryBytes, true);
      return createShared(module, memory, sync, await platform.createCrew(module, memory, threads), platform.defaultThreads());
    }
    return platform.createExecutor ? platform.createExecutor(module, memoryBytes, sync) : createSingle(module, createMemory(memoryBytes, false), sync);
  }

  /** Graph, plan and the address of everything for a context of n tokens. */
  function describe(contextLength: number) {
    const slotCells = up(contextLength, ATTENTION_PART), cells = slotCells * options.parallel;
    const batchSize = Math.min(options.batchSize, slotCells), maxOutputs = Math.min(Math.max(options.maxOutputs, options.parallel), batchSize);
    const layout = createLayout();
    const syncAt = layout.reserve(SYNC_SIZE);

    const weights = new Map<TensorInfo, Tensor>();
    const caches: { k: Tensor; v: Tensor }[] = [];
    const tables: { params: RopeParams; tensor: Tensor }[] = [];
    const input = (name: string, by: 'tokens' | 'outputs', n: number): Tensor => leaf(name, TYPE.i32, [n, 1, 1, 1], { dim: 0, by });
    const inputs: GraphInputs = {
      ids: input('ids', 'tokens', batchSize),
      pos: input('pos', 'tokens', batchSize),
      cells: input('cells', 'tokens', batchSize),
      first: input('first', 'tokens', batchSize),
      visible: input('visible', 'tokens', batchSize),
      outputs: input('outputs', 'outputs', maxOutputs),
    };
    const optional = (name: string, ne: readonly number[]): Tensor | undefined => {
      const info = gguf.tensors.get(name);
      if (!info) return undefined;
      const known = weights.get(info);
      if (known) return known;
      const want = [...ne, 1, 1, 1].slice(0, 4);
      if (want.some((n, i) => n !== info.ne[i])) {
        throw new QuantletError('ERR_TENSOR_SHAPE', `tensor "${name}" is [${info.ne.join(', ')}], but the metadata asks for [${want.join(', ')}]: the file is damaged or of another variant of the architecture`);
      }
      const tensor = leaf(name, info.type, info.ne as Ne);
      weights.set(info, tensor);
      return tensor;
    };
    const roots: Tensor[] = [];
    const logits = architecture.build(hparams, {
      inputs,
      optional,
      weight(name, ne) {
        const tensor = optional(name, ne);
        if (!tensor) throw new QuantletError('ERR_MISSING_TENSOR', `the file has no tensor "${name}", which ${architecture.name} models need; it is incomplete or of another architecture`);
        return tensor;
      },
      cache(layer) {
        const ne: Ne = [up(hparams.headDim, 8), cells, hparams.nHeadKv, 1];
        return (caches[layer] ??= { k: leaf(`cache_k.${layer}`, TYPE.f16, ne), v: leaf(`cache_v.${layer}`, TYPE.f16, ne) });
      },
      ropeTable(params) {
        const found = tables.find((t) => t.params === params);
        if (found) return found.tensor;
        const tensor = leaf('rope angles', TYPE.f32, [params.nDims, slotCells, 1, 1]);
        tables.push({ params, tensor });
        return tensor;
      },
      expand: (...nodes) => void roots.push(...nodes),
    });

    const nodes = expand([...roots, logits]);
    const packed = packWeights(nodes);
    const plan = createPlan(lower(nodes, facts), [logits]);
    const group = facts.packed_rows();
    const packing = createPlan(packed.map((dst): Record => ({ code: 'REPACK', dst, src: [], params: [], scratch: group * dst.nb[1] })));
    for (const leaf of [...Object.values(inputs), ...weights.values(), ...tables.map((t) => t.tensor), ...caches.flatMap((c) => [c.k, c.v]), ...plan.constants]) {
      leaf.data = layout.reserve(leaf.layout === 'packed' ? up(leaf.ne[1], group) * leaf.nb[1] : nbytes(leaf));
    }
    place(plan, layout.reserve(plan.computeBytes));
    const scratchAt = layout.reserve(Math.max(plan.scratchSize, packing.scratchSize) * threads), planAt = layout.reserve(plan.byteLength), packingAt = layout.reserve(packing.byteLength);
    return { packing, packingAt, contextLength, slotCells, batchSize, maxOutputs, layout, syncAt, weights, tables, inputs, plan, logits, scratchAt, planAt };
  }

  /** Matrices that only products (and look-ups of rows) read are packed for the GEMM and GEMV. */
  function packWeights(nodes: readonly Tensor[]): Tensor[] {
    const isProduct = (n: Tensor): boolean => n.op === 'mul_mat' && n.params.f32 !== 1;
    const packed = new Set(nodes.filter(isProduct).map((n) => n.src[0]!).filter((w) => w.op === 'leaf' && w.ne[2] * w.ne[3] === 1 && w.ne[0] % 32 === 0 && facts.is_packable(w.type.id)));
    for (const n of nodes) n.src.forEach((s, i) => s && !(i === 0 && (isProduct(n) || n.op === 'get_rows')) && packed.delete(s));
    for (const w of packed) w.layout = 'packed';
    return [...packed];
  }

  async function step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array> {
    const { inputs, logits, plan, planAt } = model;
    const { nTokens, nOutputs } = batch;
    for (const name of ['ids', 'pos', 'cells', 'first', 'visible', 'outputs'] as const) {
      const values = batch[name];
      await executor.write(inputs[name].data, new Uint8Array(values.buffer, values.byteOffset, 4 * (name === 'outputs' ? nOutputs : nTokens)));
    }
    const threads = nTokens <= FEW_TOKENS ? engine.generationThreads : executor.threads;
    const nVocab = logits.ne[0], reads = { at: logits.data, length: 4 * nVocab * nOutputs };
    await executor.run({ plan: planAt, nTokens, nOutputs, from: 0, to: plan.records.length, threads, reads }, signal);
    const rows = await executor.read(reads.at, reads.length);
    return (i) => new Float32Array(rows.buffer, rows.byteOffset + 4 * nVocab * i, nVocab);
  }
}

/** Streams every weight to its place, in the file's order, without a buffer for the whole; a matrix is packed while the next is read. */
async function readWeights(executor: Executor, parts: readonly Bytes[], { weights, packing, packingAt }: { weights: ReadonlyMap<TensorInfo, Tensor>; packing: Plan; packingAt: number }, { signal, onProgress }: EngineOptions): Promise<void> {
  const inOrder = [...weights].sort(([a], [b]) => a.part - b.part || a.offset - b.offset);
  const total = inOrder.reduce((n, [info]) => n + info.byteLength, 0);
  const packingOf = new Map(packing.records.map((r, i) => [r.dst, i]));
  let loaded = 0;
  let packed: Promise<void> = Promise.resolve();
  for (const [info, tensor] of inOrder) {
    const bytes = parts[info.part];
    for (let at = 0; at < info.byteLength; at += READ_BYTES) {
      signal?.throwIfAborted();
      const n = Math.min(READ_BYTES, info.byteLength - at), from = info.offset + at;
      const target = bytes.readInto && executor.view(tensor.data + at, n);
      if (target) await bytes.readInto!(target, from, signal);
      else await executor.write(tensor.data + at, await bytes.read(from, from + n, signal));
      loaded += n;
      onProgress?.({ loaded, total });
    }
    const record = packingOf.get(tensor);
    if (record === undefined) continue;
    await packed;
    packed = executor.run({ plan: packingAt, nTokens: 0, nOutputs: 0, from: record, to: record + 1 }, signal);
    packed.catch(() => {}); // heard at the next await
  }
  await packed;
}
