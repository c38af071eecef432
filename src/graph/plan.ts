/**
 * Plans a graph, as ggml_graph_plan: records get memory and barriers, and become bytes. A plan is
 * made once per model; a step changes only n_tokens and n_outputs (begin() in
 * assembly/runtime/compute.ts).
 */
import { alignUp } from '../align.ts';
import { ALIGN, createAllocator } from '../wasm/allocator.ts';
import { CODE } from './kernels.ts';
import { BATCH_COUNT, LAYOUT, OP_BARRIER, RANGES } from './layout.ts';
import type { OpRecord } from './lower.ts';
import { OP, OP_SIZE, PLAN, PLAN_SIZE, TENSOR, TENSOR_SIZE } from './structures.ts';
import { baseOf, nbytes, type Tensor } from './tensor.ts';

/**
 * Nodes that the roots need, each once, sources first, in the order of the roots
 * (ggml_build_forward_expand).
 */
export function expand(roots: readonly Tensor[]): Tensor[] {
  const seen = new Set<Tensor>();
  const order: Tensor[] = [];
  // An explicit stack, because a chain of ops can be longer than JavaScript's call stack is deep.
  const stack: { readonly t: Tensor; next: number }[] = [];
  const enter = (t: Tensor | undefined): void => {
    if (!t || seen.has(t)) return;
    seen.add(t);
    stack.push({ t, next: 0 });
  };
  for (const root of roots) {
    enter(root);
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      if (top.next < top.t.src.length) enter(top.t.src[top.next++]);
      else order.push(stack.pop()!.t);
    }
  }
  return order;
}

export interface GraphPlan {
  readonly records: readonly OpRecord[];
  readonly tensors: readonly Tensor[];
  /** Bytes of tensors, records and cursors. */
  readonly byteLength: number;
  /** Bytes of intermediate results. */
  readonly computeBytes: number;
  /** Scratch bytes of a thread. */
  readonly scratchSize: number;
  /**
   * Leaves with bytes of their own (`values`): the caller allocates memory for them and writes them
   * there.
   */
  readonly constants: readonly Tensor[];
}

const written = (r: OpRecord): Tensor[] => [r.dst, ...(r.casts ?? []), ...(r.writtenSrc ?? [])];
const read = (r: OpRecord): Tensor[] => r.src.filter((t): t is Tensor => t !== undefined);
const up = (n: number): number => alignUp(n, ALIGN);

/**
 * Assigns intermediate results offsets from 0 on.
 * @param keep results that the caller reads after the step
 */
export function createGraphPlan(records: readonly OpRecord[], keep: readonly Tensor[] = []): GraphPlan {
  const tensors = [...new Set(records.flatMap((r) => [...written(r), ...read(r)]))];
  const computeBytes = allocate(records, new Set(keep.map(baseOf)));
  const dims = tensors.filter((t) => t.batch).length;
  const scratchSize = up(records.reduce((most, r) => Math.max(most, r.scratch ?? 0), 0));
  const constants = [...new Set(tensors.map(baseOf))].filter((t) => t.values);
  return {
    records,
    tensors,
    computeBytes,
    scratchSize,
    constants,
    byteLength:
      up(PLAN_SIZE) + up(tensors.length * TENSOR_SIZE) + up(records.length * OP_SIZE) + up(records.length * 4) * RANGES + up(dims * 8),
  };
}

/**
 * Gives every intermediate result an offset. Its memory is free again after its last reader (as in
 * ggml-alloc), but not before the next barrier: reusing memory at once would add barriers that no
 * data needs.
 */
function allocate(records: readonly OpRecord[], keep: ReadonlySet<Tensor>): number {
  const last = new Map<Tensor, number>();
  records.forEach((r, i) => [...read(r), ...written(r)].forEach((t) => last.set(baseOf(t), i)));
  const memory = createAllocator(0);
  const placed = new Set<Tensor>();
  let ended: Tensor[] = [];
  const readSince = new Set<Tensor>();
  const writtenSince = new Set<Tensor>();
  records.forEach((r, i) => {
    const reads = read(r).map(baseOf);
    const writes = written(r).map(baseOf);
    if (reads.some((t) => writtenSince.has(t)) || writes.some((t) => readSince.has(t) || writtenSince.has(t))) {
      for (const t of ended) memory.give(t.data, nbytes(t));
      ended = [];
      readSince.clear();
      writtenSince.clear();
    }
    reads.forEach((t) => readSince.add(t));
    writes.forEach((t) => writtenSince.add(t));
    for (const t of writes) {
      if (t.op === 'leaf' || placed.has(t)) continue;
      t.data = memory.take(nbytes(t));
      placed.add(t);
    }
    for (const t of new Set([...reads, ...writes])) if (t.op !== 'leaf' && last.get(t) === i && !keep.has(t)) ended.push(t);
  });
  return memory.end;
}

/**
 * Adds the compute region's address to all intermediate results and views. Leaves must have
 * addresses already.
 */
export function place(plan: GraphPlan, computeAt: number): void {
  const bases = new Set(plan.tensors.map(baseOf).filter((t) => t.op !== 'leaf'));
  bases.forEach((t) => (t.data += computeAt));
  plan.tensors.forEach((t) => t.viewOf && (t.data = t.viewOf.data + t.viewOffset));
}

/**
 * Bytes of a plan's intermediate results and of the scratch of nth threads. Plans that run one
 * after the other can share them.
 */
export const workBytes = (plan: GraphPlan, nth: number): number => up(plan.computeBytes) + plan.scratchSize * nth;

/** Bytes of the arena for a plan and its work. */
export const planBytes = (plan: GraphPlan, nth: number): number => workBytes(plan, nth) + plan.byteLength;

export interface PlacedPlan {
  /** Address of the plan's bytes, which a step refers to. */
  readonly at: number;
  /** Address of the first thread's scratch; the next thread's begins scratchSize bytes later. */
  readonly scratchAt: number;
  /** Returns the bytes to write at that address. */
  encode(): Uint8Array;
}

/**
 * Gives a plan workBytes() bytes of the arena at `workAt`, and puts its own bytes at `at`, by
 * default after them. Leaves must have addresses already.
 */
export function placePlan(plan: GraphPlan, workAt: number, nth: number, at = workAt + workBytes(plan, nth)): PlacedPlan {
  place(plan, workAt);
  const scratchAt = workAt + up(plan.computeBytes);
  return { at, scratchAt, encode: () => encodePlan(plan, at, scratchAt) };
}

/**
 * True for records that need a barrier before them: they touch bytes that a record since the last
 * barrier wrote, or write bytes that it read.
 */
export function barriers(records: readonly OpRecord[]): boolean[] {
  type Range = readonly [from: number, to: number];
  const range = (t: Tensor): Range => [t.data, t.data + nbytes(t)];
  const overlap = (a: Range[], b: Range[]): boolean => a.some((x) => b.some((y) => x[0] < y[1] && y[0] < x[1]));
  let reads: Range[] = [];
  let writes: Range[] = [];
  return records.map((r) => {
    const in_ = read(r).map(range);
    const out = written(r).map(range);
    const meet = overlap(in_, writes) || overlap(out, writes) || overlap(out, reads);
    if (meet) [reads, writes] = [[], []];
    reads.push(...in_);
    writes.push(...out);
    return meet;
  });
}

/** Bytes of a plan at address `at`. All tensors must have addresses already. */
export function encodePlan(plan: GraphPlan, at: number, scratchAt: number): Uint8Array {
  const { tensors, records, scratchSize } = plan;
  const bytes = new Uint8Array(plan.byteLength);
  const u32 = new Uint32Array(bytes.buffer);
  const f32 = new Float32Array(bytes.buffer);
  const tensorsAt = up(PLAN_SIZE);
  const opsAt = tensorsAt + up(tensors.length * TENSOR_SIZE);
  const cursorsAt = opsAt + up(records.length * OP_SIZE);
  const cursorBytes = up(records.length * 4);
  const dimsAt = cursorsAt + cursorBytes * RANGES;
  const address = new Map(tensors.map((t, i) => [t, at + tensorsAt + i * TENSOR_SIZE]));

  let nDims = 0;
  for (const [i, t] of tensors.entries()) {
    const w = (tensorsAt + i * TENSOR_SIZE) / 4;
    u32[w + TENSOR.type] = t.type.id;
    u32[w + TENSOR.layout] = LAYOUT[t.layout];
    u32.set(t.ne, w + TENSOR.ne);
    u32.set(t.nb, w + TENSOR.nb);
    u32[w + TENSOR.data] = t.data;
    if (t.batch) {
      u32.set([at + (w + TENSOR.ne + t.batch.dim) * 4, BATCH_COUNT[t.batch.by]], dimsAt / 4 + 2 * nDims++);
    }
  }
  const meet = barriers(records);
  for (const [i, r] of records.entries()) {
    const w = (opsAt + i * OP_SIZE) / 4;
    u32[w + OP.code] = CODE[r.code];
    u32[w + OP.flags] = meet[i] ? OP_BARRIER : 0;
    u32[w + OP.dst] = address.get(r.dst)!;
    r.src.forEach((t, k) => t && (u32[w + OP.src + k] = address.get(t)!));
    // A linked list: each form has the address of the next.
    r.casts?.forEach((t, k) => (u32[k === 0 ? w + OP.casts : (address.get(r.casts![k - 1])! - at) / 4 + TENSOR.next] = address.get(t)!));
    u32[w + OP.cursor] = at + cursorsAt + i * 4;
    r.params.forEach((p, k) => (typeof p === 'number' ? (u32[w + OP.p + k] = p) : (f32[w + OP.p + k] = p.f)));
  }
  u32[PLAN.n_ops] = records.length;
  u32[PLAN.ops] = at + opsAt;
  u32[PLAN.n_dims] = nDims;
  u32[PLAN.dims] = at + dimsAt;
  u32[PLAN.cursor_bytes] = cursorBytes;
  u32[PLAN.cursors] = at + cursorsAt;
  u32[PLAN.scratch] = scratchAt;
  u32[PLAN.scratch_size] = scratchSize;
  return bytes;
}
