/**
 * ggml_graph_plan: nodes -> records with memory and barriers -> bytes for the arena.
 * A plan is made once per model; a step changes only n_tokens and n_outputs (begin() in assembly/compute.ts).
 */
import { alignUp } from '../gguf/types.ts';
import { LAYOUT, CODE, OP, OP_BARRIER, OP_SIZE, PLAN, PLAN_SIZE, RANGES, TENSOR, TENSOR_SIZE } from './layout.ts';
import type { Record } from './lower.ts';
import { nbytes, type Tensor } from './tensor.ts';

/** A cache line: threads never write one line from two tensors. */
export const ALIGN = 64;

/** Everything the roots need, each node once, sources first, in the order of the roots (ggml_build_forward_expand). */
export function expand(roots: readonly Tensor[]): Tensor[] {
  const seen = new Set<Tensor>(), order: Tensor[] = [];
  // A stack of its own: a chain of ops may be longer than JavaScript's is deep.
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

export interface Plan {
  readonly records: readonly Record[];
  readonly tensors: readonly Tensor[];
  /** Bytes of tensors, records and cursors. */
  readonly byteLength: number;
  /** Bytes of intermediate results. */
  readonly computeBytes: number;
  /** Scratch bytes of a thread. */
  readonly scratchSize: number;
  /** Leaves whose bytes the graph brings along (`values`): the caller gives them memory and writes them. */
  readonly constants: readonly Tensor[];
}

const base = (t: Tensor): Tensor => t.viewOf ?? t;
const written = (r: Record): Tensor[] => [r.dst, ...(r.also ?? []), ...(r.alsoWrites ?? [])];
const read = (r: Record): Tensor[] => r.src.filter((t): t is Tensor => t !== undefined);
const up = (n: number): number => alignUp(n, ALIGN);

/** Lays out the records' intermediate results from address 0; `keep` are results the caller reads after the step. */
export function createPlan(records: readonly Record[], keep: readonly Tensor[] = []): Plan {
  const tensors = [...new Set(records.flatMap((r) => [...written(r), ...read(r)]))];
  const computeBytes = allocate(records, new Set(keep.map(base)));
  const dims = tensors.filter((t) => t.batch).length;
  const scratchSize = up(records.reduce((most, r) => Math.max(most, r.scratch ?? 0), 0));
  const constants = [...new Set(tensors.map(base))].filter((t) => t.values);
  return { records, tensors, computeBytes, scratchSize, constants, byteLength: up(PLAN_SIZE) + up(tensors.length * TENSOR_SIZE) + up(records.length * OP_SIZE) + up(records.length * 4) * RANGES + up(dims * 8) };
}

/**
 * Gives every intermediate result an offset; memory is free again after its last reader (ggml-alloc, best fit), but not before the
 * threads meet next: reused at once it would make them meet where no data needs it.
 */
function allocate(records: readonly Record[], keep: ReadonlySet<Tensor>): number {
  const last = new Map<Tensor, number>();
  records.forEach((r, i) => [...read(r), ...written(r)].forEach((t) => last.set(base(t), i)));
  let free: { at: number; size: number }[] = [], end = 0;
  const placed = new Set<Tensor>();
  const release = (at: number, size: number): void => {
    free.push({ at, size });
    free.sort((a, b) => a.at - b.at);
    free = free.reduce<typeof free>((list, f) => {
      const p = list[list.length - 1];
      if (p && p.at + p.size === f.at) p.size += f.size;
      else list.push(f);
      return list;
    }, []);
  };
  const take = (size: number): number => {
    const fit = free.filter((f) => f.size >= size).sort((a, b) => a.size - b.size)[0];
    if (!fit) {
      end += size;
      return end - size;
    }
    fit.at += size;
    fit.size -= size;
    return fit.at - size;
  };
  let ended: Tensor[] = [];
  const readSince = new Set<Tensor>(), writtenSince = new Set<Tensor>();
  records.forEach((r, i) => {
    const reads = read(r).map(base), writes = written(r).map(base);
    if (reads.some((t) => writtenSince.has(t)) || writes.some((t) => readSince.has(t) || writtenSince.has(t))) {
      for (const t of ended) release(t.data, up(nbytes(t)));
      ended = [];
      readSince.clear();
      writtenSince.clear();
    }
    reads.forEach((t) => readSince.add(t));
    writes.forEach((t) => writtenSince.add(t));
    for (const t of writes) {
      if (t.op === 'leaf' || placed.has(t)) continue;
      t.data = take(up(nbytes(t)));
      placed.add(t);
    }
    for (const t of new Set([...reads, ...writes])) if (t.op !== 'leaf' && last.get(t) === i && !keep.has(t)) ended.push(t);
  });
  return end;
}

/** Adds the compute region's address to all intermediate results and views; leaves must have their address by now. */
export function place(plan: Plan, computeAt: number): void {
  const bases = new Set(plan.tensors.map(base).filter((t) => t.op !== 'leaf'));
  bases.forEach((t) => (t.data += computeAt));
  plan.tensors.forEach((t) => t.viewOf && (t.data = t.viewOf.data + t.viewOffset));
}

/** Records before which threads must meet: they touch bytes that a record since the last meeting wrote, or write what it read. */
export function barriers(records: readonly Record[]): boolean[] {
  type Range = readonly [from: number, to: number];
  const range = (t: Tensor): Range => [t.data, t.data + nbytes(t)];
  const overlap = (a: Range[], b: Range[]): boolean => a.some((x) => b.some((y) => x[0] < y[1] && y[0] < x[1]));
  let reads: Range[] = [], writes: Range[] = [];
  return records.map((r) => {
    const in_ = read(r).map(range), out = written(r).map(range);
    const meet = overlap(in_, writes) || overlap(out, writes) || overlap(out, reads);
    if (meet) [reads, writes] = [[], []];
    reads.push(...in_);
    writes.push(...out);
    return meet;
  });
}

/** The plan's bytes for address `at`; all tensors have their addresses. */
export function encodePlan(plan: Plan, at: number, scratchAt: number): Uint8Array {
  const { tensors, records, scratchSize } = plan;
  const bytes = new Uint8Array(plan.byteLength), u32 = new Uint32Array(bytes.buffer), f32 = new Float32Array(bytes.buffer);
  const tensorsAt = up(PLAN_SIZE), opsAt = tensorsAt + up(tensors.length * TENSOR_SIZE);
  const cursorsAt = opsAt + up(records.length * OP_SIZE), cursorBytes = up(records.length * 4), dimsAt = cursorsAt + cursorBytes * RANGES;
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
      u32.set([at + (w + TENSOR.ne + t.batch.dim) * 4, t.batch.by === 'tokens' ? 0 : 1], dimsAt / 4 + 2 * nDims++);
    }
  }
  const meet = barriers(records);
  for (const [i, r] of records.entries()) {
    const w = (opsAt + i * OP_SIZE) / 4;
    u32[w + OP.code] = CODE[r.code];
    u32[w + OP.flags] = meet[i] ? OP_BARRIER : 0;
    u32[w + OP.dst] = address.get(r.dst)!;
    r.src.forEach((t, k) => t && (u32[w + OP.src + k] = address.get(t)!));
    // A list: each form names the next.
    r.also?.forEach((t, k) => (u32[k === 0 ? w + OP.also : (address.get(r.also![k - 1])! - at) / 4 + TENSOR.next] = address.get(t)!));
    u32[w + OP.cursor] = at + cursorsAt + i * 4;
    r.params.forEach((p, k) => (typeof p === 'number' ? (u32[w + OP.params + k] = p) : (f32[w + OP.params + k] = p.f)));
  }
  u32[PLAN.nOps] = records.length;
  u32[PLAN.ops] = at + opsAt;
  u32[PLAN.nDims] = nDims;
  u32[PLAN.dims] = at + dimsAt;
  u32[PLAN.cursorBytes] = cursorBytes;
  u32[PLAN.cursors] = at + cursorsAt;
  u32[PLAN.scratch] = scratchAt;
  u32[PLAN.scratchSize] = scratchSize;
  return bytes;
}
