/**
 * The tensor API's engine: a memory with tensors in it, plans over them, threads that compute. The models use the same graph, plan,
 * records and kernels (src/engine.ts); here the graph is the caller's.
 */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';
import { SYNC_SIZE, type Layout } from '../graph/layout.ts';
import { lower, type Record } from '../graph/lower.ts';
import { ALIGN, createPlan, encodePlan, expand, place, type Plan as GraphPlan } from '../graph/plan.ts';
import { fourDims, isContiguous, leaf, nbytes, refuse, shape, type Tensor } from '../graph/tensor.ts';
import { checkOptions, KIND } from '../options.ts';
import type { Platform } from '../platform.ts';
import { checkThreads } from '../threads/executor.ts';
import { createShared } from '../threads/shared.ts';
import { createSingle } from '../threads/single.ts';
import { firstInvalidBlock } from '../quantize/validate.ts';
import { TYPE, type TypeName } from '../type-traits.ts';
import { isThreaded, kernelFacts, pickBuild, type Build } from '../wasm/load.ts';
import { ARENA_BASE, MEMORY_LIMIT, createMemory, mebibytes } from '../wasm/memory.ts';
import { createArena } from './arena.ts';
import { arrayOver, bytesFor, gather, type TensorData } from './data.ts';
import { explainPlan } from './explain.ts';
import { checkIndices, indexChecks, type IndexCheck } from './indices.ts';

export interface EngineOptions {
  /** Threads that compute; default: the cores this process may use. Results are the same bits for any number. */
  threads?: number;
  /** Bytes for tensors, intermediate results and plans. Made once, never grown; untouched pages cost nothing on most systems. Default 64 MiB. */
  memoryBytes?: number;
  /** A build instead of the best one that runs here. @see BUILDS */
  build?: Build | undefined;
}

/** A graph ready to run, as often as wanted; made by engine.plan(). */
export interface Plan {
  /** One line a record: the kernel chosen and why, what it reads and writes, and where threads meet. */
  explain(): string;
  /** Gives its memory back; its results can no longer be read. @throws ERR_BUSY while it runs or waits to */
  dispose(): void;
}

export interface ComputeOptions {
  /** Ends the run, which then rejects with signal.reason. */
  signal?: AbortSignal | undefined;
}

export interface Engine {
  readonly build: Build;
  readonly threads: number;
  /** Bytes not taken by tensors and plans. */
  readonly freeBytes: number;
  /**
   * ggml_new_tensor: a tensor of this engine, zeroed or with the given data.
   * @param ne one to four dimensions, ne[0] the fastest; a multiple of the type's block in ne[0]
   * @throws ERR_TENSOR_SHAPE, ERR_INVALID_ARGUMENT (data of another type or length), ERR_OUT_OF_MEMORY, ERR_DISPOSED
   */
  tensor(type: TypeName, ne: readonly number[], data?: TensorData): Tensor;
  /** Gives a tensor's memory back. Plans that read it refuse to run. @throws ERR_BUSY while a plan runs */
  free(t: Tensor): void;
  /** Copies data into a tensor of tensor(). @throws ERR_INVALID_ARGUMENT, ERR_TENSOR_SHAPE (a view with gaps), ERR_BUSY while a plan runs */
  write(t: Tensor, data: TensorData): void;
  /** A copy of the elements, in ne order, of a tensor of tensor(), a view of one, or a result of a plan; half written while a plan that writes it runs. */
  read(t: Tensor): TensorData;
  /** The elements themselves, without a copy; contiguous tensors only. With threads the array lies on a SharedArrayBuffer. Valid until the tensor or plan is given back. */
  view(t: Tensor): TensorData;
  /**
   * Rearranges a matrix for the packed kernels, which products take from then on where its type has them: GEMM and GEMV over blocks, and
   * over f32, f16 and bf16 weights (ggml's BLAS way). It can then only be multiplied by (as the first operand of mul_mat) and looked up in
   * (get_rows), not viewed or read; plans made before refuse to run.
   * @returns whether there are packed kernels for its type, shape and scales (finite ones) @throws ERR_OUT_OF_MEMORY, ERR_TENSOR_SHAPE, ERR_BUSY while a plan runs
   */
  pack(t: Tensor): Promise<boolean>;
  /**
   * Lowers the graph of the results to records and gives its intermediate tensors memory (ggml_graph_plan).
   * A result is read from the plan that was made last. @throws ERR_INVALID_ARGUMENT for tensors of another engine, ERR_OUT_OF_MEMORY
   */
  plan(...results: Tensor[]): Plan;
  /** Runs a plan (ggml_graph_compute). Calls take turns. @throws ERR_INVALID_ARGUMENT (no plan of this engine, an option, an index outside its table), ERR_DISPOSED, or signal.reason */
  compute(plan: Plan, options?: ComputeOptions): Promise<void>;
  /** Ends the threads and gives the memory back; everything else throws ERR_DISPOSED afterwards. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const DEFAULT_BYTES = 64 << 20;

interface Made {
  readonly graph: GraphPlan;
  readonly at: number;
  readonly bytes: number;
  readonly planAt: number;
  readonly checks: readonly IndexCheck[];
  /** What it reads, and how that lay when it was made. */
  readonly leaves: readonly (readonly [Tensor, Layout])[];
  /** Calls of compute() that have not ended. */
  computing: number;
}

export async function createEngineOn(platform: Platform, options: EngineOptions = {}): Promise<Engine> {
  const build = pickBuild(platform.features(), options.build || platform.forcedBuild()), shared = isThreaded(build);
  const asked = checkThreads(options.threads), threads = shared ? (asked ?? platform.defaultThreads()) : 1;
  const bytes = options.memoryBytes ?? DEFAULT_BYTES;
  if (!Number.isSafeInteger(bytes) || bytes < 1) throw new QuantletError('ERR_INVALID_ARGUMENT', `memoryBytes is ${bytes}; expected a whole number of at least 1`);
  if (!(bytes + ARENA_BASE + 65536 < MEMORY_LIMIT)) throw new QuantletError('ERR_OUT_OF_MEMORY', `memoryBytes is ${bytes}; one WebAssembly memory has 4096 MiB at most`);
  const module = await platform.module(build), facts = kernelFacts(module, shared);
  const end = ARENA_BASE + SYNC_SIZE + 64 + bytes;
  const memory = createMemory(end, shared), buffer = memory.buffer;
  const arena = createArena(ARENA_BASE + SYNC_SIZE, end);
  const executor = shared ? createShared(module, memory, ARENA_BASE, await platform.createCrew(module, memory, threads), platform.defaultThreads()) : createSingle(module, memory, ARENA_BASE);

  const self = {};
  const sizes = new Map<Tensor, number>();
  const made = new Map<Plan, Made>();
  /** Where results lie. */
  const results = new Map<Tensor, { plan: Plan; at: number }>();
  let disposed = false, running = 0;
  let turn: Promise<void> = Promise.resolve();

  const alive = (what: string): void => {
    if (disposed) throw new QuantletError('ERR_DISPOSED', `${what}: the engine was disposed of; create another`);
  };
  const take = (n: number, what: string): number => {
    const at = arena.take(n);
    if (at === undefined) throw new QuantletError('ERR_OUT_OF_MEMORY', `${what} needs ${mebibytes(n)}, the engine has ${mebibytes(arena.freeBytes)} left in all; create it with more memoryBytes, or free tensors and plans`);
    return at;
  };
  /** Tells a leaf that is not ours, or no more. */
  const own = (what: string, t: Tensor): void => {
    if (!t?.type) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: expected a tensor, got ${Array.isArray(t) ? 'a list' : String(t)}`);
    if (t.owner !== undefined && t.owner !== self) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(t)} belongs to another engine; read it there and write it here`);
    const base = t.viewOf ?? t;
    if (base.op === 'leaf' && !base.values && !sizes.has(base)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(base)} was freed`);
  };
  const addressOf = (what: string, t: Tensor): number => {
    alive(what);
    own(what, t);
    const base = t.viewOf ?? t, result = results.get(t);
    if (base.layout === 'packed') refuse(what, 'is packed; only mul_mat and get_rows read it', base);
    if (base.op === 'leaf') return base.data + t.viewOffset;
    if (!result) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what}: ${shape(t)} is an intermediate tensor or its plan was disposed of; name it in plan() to keep it`);
    return result.at;
  };
  /** A packed matrix has its last group of rows filled up. */
  const packedBytes = (t: Tensor): number => alignUp(t.ne[1], facts.packed_rows()) * t.nb[1];
  /** Sees to it that a leaf has room for n bytes, elsewhere if need be. */
  const widen = (t: Tensor, n: number): void => {
    const old = sizes.get(t)!, from = t.data;
    if (old >= n) return;
    t.data = take(n, `the packed ${shape(t)}`);
    new Uint8Array(buffer).copyWithin(t.data, from, from + old).fill(0, t.data + old, t.data + n);
    arena.give(from, old);
    sizes.set(t, n);
  };
  const idle = (what: string): void => {
    if (running > 0) throw new QuantletError('ERR_BUSY', `${what}: a plan is running; await compute() first`);
  };
  const bytesOf = (what: string, t: Tensor): Uint8Array => new Uint8Array(buffer, addressOf(what, t), nbytes(t));

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

  /** Memory and bytes for records. `nodes` are what they came from. */
  const encoded = (records: readonly Record[], keep: readonly Tensor[]): Omit<Made, 'checks' | 'leaves' | 'computing'> => {
    const graph = createPlan(records, keep);
    const constantBytes = graph.constants.reduce((sum, c) => sum + alignUp(nbytes(c), ALIGN), 0);
    const total = alignUp(graph.computeBytes, ALIGN) + constantBytes + graph.scratchSize * threads + alignUp(graph.byteLength, ALIGN);
    const at = take(total, 'the plan');
    place(graph, at);
    let next = at + alignUp(graph.computeBytes, ALIGN);
    for (const c of graph.constants) {
      c.data = next;
      new Uint8Array(buffer, next, c.values!.length).set(c.values!);
      next += alignUp(nbytes(c), ALIGN);
    }
    const planAt = next + graph.scratchSize * threads;
    new Uint8Array(buffer).set(encodePlan(graph, planAt, next), planAt);
    return { graph, at, bytes: total, planAt };
  };

  const engine: Engine = {
    build,
    threads,
    get freeBytes() {
      return arena.freeBytes;
    },
    tensor(type, ne, data) {
      alive('tensor');
      const traits = TYPE[type];
      if (!traits) throw new QuantletError('ERR_INVALID_ARGUMENT', `tensor: there is no type "${type}"; expected one of ${Object.keys(TYPE).join(', ')}`);
      const dims = fourDims('tensor', ne);
      if (dims[0] % traits.blckSize !== 0) throw new QuantletError('ERR_TENSOR_SHAPE', `tensor: ${type} [${dims.join(', ')}]: ne0 is no multiple of the block of ${traits.blckSize}`);
      const t = leaf('', traits, dims, undefined, self);
      const source = data && bytesFor(t, data);
      // Blocks are there to be packed: room for it at once.
      const n = facts.is_packable(traits.id) && dims[2] * dims[3] === 1 ? packedBytes(t) : nbytes(t);
      t.data = take(n, `a tensor ${type} [${dims.join(', ')}]`);
      sizes.set(t, n);
      const target = new Uint8Array(buffer, t.data, n);
      target.fill(0, source?.length ?? 0);
      if (source) target.set(source);
      return t;
    },
    free(t) {
      alive('free');
      own('free', t);
      idle('free');
      if (t.op !== 'leaf') refuse('free', 'is no tensor of tensor(); plans own their results', t);
      arena.give(t.data, sizes.get(t)!);
      sizes.delete(t);
    },
    write(t, data) {
      idle('write');
      bytesOf('write', t).set(bytesFor(t, data));
    },
    read: (t) => gather(t, bytesOf('read', t)),
    view(t) {
      if (!isContiguous(t)) refuse('view', 'is not contiguous', t);
      return arrayOver(t, bytesOf('view', t));
    },
    async pack(t) {
      addressOf('pack', t);
      if (t.op !== 'leaf' || t.ne[2] * t.ne[3] !== 1) refuse('pack', 'only whole matrices are packed', t);
      if (facts.packed_act_type(t.type.id) !== TYPE.f32.id && !(facts.is_packable(t.type.id) && t.ne[0] % 32 === 0)) return false;
      idle('pack');
      // The packed kernels take scales apart as finite numbers; the plain ones give what ggml gives.
      if (t.type.blckSize > 1 && firstInvalidBlock(t.type, new Uint8Array(buffer, t.data, nbytes(t))) >= 0) return false;
      widen(t, packedBytes(t));
      const { at, bytes, planAt } = encoded([{ code: 'REPACK', dst: t, src: [], params: [], scratch: facts.packed_rows() * t.nb[1] }], []);
      try {
        await inTurn(() => executor.run({ plan: planAt, nTokens: 0, nOutputs: 0, from: 0, to: 1 }));
        t.layout = 'packed';
      } finally {
        if (!disposed) arena.give(at, bytes);
      }
      return true;
    },
    plan(...wanted) {
      alive('plan');
      for (const t of wanted) own('plan', t);
      const nodes = expand(wanted);
      for (const t of nodes) {
        own('plan', t);
        t.src.forEach((s, i) => s?.layout === 'packed' && !(i === 0 && (t.op === 'mul_mat' || t.op === 'get_rows')) && refuse(t.op, 'is packed; only mul_mat and get_rows read it', s));
      }
      const records = lower(nodes, facts);
      const parts = encoded(records, wanted);
      const { graph } = parts;
      const plan: Plan = {
        explain: () => explainPlan(graph),
        dispose() {
          const known = made.get(plan);
          if (disposed || !known) return;
          if (known.computing > 0) throw new QuantletError('ERR_BUSY', 'dispose: the plan is running; await compute() first');
          made.delete(plan);
          for (const [t, r] of results) if (r.plan === plan) results.delete(t);
          arena.give(parts.at, parts.bytes);
        },
      };
      made.set(plan, { ...parts, computing: 0, checks: indexChecks(nodes), leaves: nodes.filter((t) => t.op === 'leaf' && !t.values).map((t) => [t, t.layout]) });
      // Results that no record touches are views: they lie where their base lies.
      for (const t of wanted) {
        const base = t.viewOf ?? t;
        if (base.op !== 'leaf') results.set(t, { plan, at: base.data + t.viewOffset });
      }
      return plan;
    },
    async compute(plan, options) {
      alive('compute');
      const { signal } = checkOptions<ComputeOptions>('compute', options, { signal: KIND.signal });
      const known = made.get(plan);
      if (!known) throw new QuantletError('ERR_INVALID_ARGUMENT', 'compute: the plan was disposed of or belongs to another engine');
      known.computing++;
      await inTurn(async () => {
        alive('compute');
        for (const [t, layout] of known.leaves) {
          own('compute', t);
          if (t.layout !== layout) refuse('compute', 'was packed after the plan was made; make the plan again', t);
        }
        const valuesOf = (t: Tensor): TensorData => arrayOver(t, bytesOf('compute', t));
        for (const check of known.checks) checkIndices(check, valuesOf(check.indices), check.counts && valuesOf(check.counts));
        await executor.run({ plan: known.planAt, nTokens: 0, nOutputs: 0, from: 0, to: known.graph.records.length }, signal);
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
