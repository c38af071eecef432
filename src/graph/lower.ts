/**
 * Lowers graph nodes to records: a record is one call of a kernel on all threads. Lowering chooses
 * each node's kernel, the operands that are converted first, and the nodes that are fused. Then
 * plan.ts allocates memory and finds the barriers.
 */
import { TYPE } from '../type-traits.ts';
import { attentionRecords, pushFlashAttn } from './lower-attention.ts';
import { recurrentRecord } from './lower-recurrent.ts';
import { pushSparse } from './lower-sparse.ts';
import { BINARY, COPY, KV_STORE_SCRATCH } from './layout.ts';
import { Lowering } from './lowering.ts';
import { chooseMulMat } from './mul-mat-kernels.ts';
import type { Target } from './packed-products.ts';
import type { OpRecord } from './record.ts';
import { baseOf, hasContiguousRows, node, sameShape, type Tensor } from './tensor.ts';

export type { OpRecord } from './record.ts';

/** Lowers t. Its neighbours are the nodes that are computed before and after it. */
type Lower = (l: Lowering, t: Tensor, neighbours: { readonly before: Tensor | undefined; readonly next: Tensor | undefined }) => void;

/** @param nodes each after its sources, as expand() orders them */
export function lower(nodes: readonly Tensor[], target: Target): OpRecord[] {
  const lowering = new Lowering(nodes, target);
  const steps = nodes.filter((n) => n.op !== 'leaf' && n.op !== 'view');
  for (const [i, t] of steps.entries()) {
    const lowerOp = Object.hasOwn(OPS, t.op) ? OPS[t.op] : undefined;
    if (lowerOp) lowerOp(lowering, t, { before: steps[i - 1], next: steps[i + 1] });
    else lowering.byRow(t);
  }
  return lowering.records;
}

const operands = (t: Tensor): readonly Tensor[] => t.src as readonly Tensor[];

/** View of t, in the shape of `a`, from byte viewOffset on. */
const partOf = (t: Tensor, { ne, batch }: Tensor, viewOffset = 0): Tensor =>
  node('view', ne, { type: t.type, nb: t.nb, batch, viewOf: t, viewOffset });

const mulMat: Lower = (l, t) => {
  const [a, b] = operands(t);
  const kernel = chooseMulMat(a, b, t.params.f32 === 1, l.target);
  l.push({
    code: kernel.code,
    dst: t,
    src: [l.rowsOf(a, kernel.src0), l.rowsOf(b, kernel.src1)],
    params: [0, l.fetched(a)],
    how: kernel.how,
    scratch: kernel.code === 'MUL_MAT_PACKED' ? l.packedScratch : 0,
  });
};

const mulMatId: Lower = (l, t) => {
  const [a, b, ids] = operands(t);
  const kernel = chooseMulMat(a, b, false, l.target, ids);
  const packed = kernel.code === 'MUL_MAT_PACKED';
  const x = packed ? l.inGroups(b, kernel.src1, ids, a.ne[2]) : l.rowsOf(b, kernel.src1);
  l.push({
    code: kernel.code,
    dst: t,
    src: [l.rowsOf(a, kernel.src0), x, l.groupsOf(ids, a.ne[2])],
    params: [b.ne[1], l.fetched(a)],
    how: kernel.how,
    scratch: packed ? l.packedScratch : 0,
  });
};

const binary: Lower = (l, t, { next }) => {
  // RMS_NORM computes a sum whose norm comes next, in the same pass over memory.
  if (fusesWithNorm(t, next)) return;
  const [a, b] = operands(t);
  const { kind } = t.params;
  if (t.type === TYPE.f32)
    l.push({ code: 'BINARY', dst: t, src: [kind === BINARY.repeat ? t : l.anyStrides(a), l.anyStrides(b)], params: [kind] });
  else l.into(t, (dst) => l.push({ code: 'BINARY', dst, src: [l.anyStrides(a), l.anyStrides(b)], params: [kind] }));
};

const rmsNorm: Lower = (l, t, { before }) => {
  const [a, b] = operands(t);
  if (before !== a || !fusesWithNorm(a, t)) return l.byRow(t);
  l.push({
    code: 'RMS_NORM',
    dst: t,
    src: [a.src[0], l.f32(b), a.src[1], a],
    params: [{ f: t.params.eps }],
    writtenSrc: [a],
    how: 'with the sum before it',
  });
};

const kvStore: Lower = (l, t) => {
  const [a, cells, cache] = operands(t);
  const { v, rotation } = t.params;
  l.push({
    code: 'KV_STORE',
    dst: cache,
    src: [l.rowsOf(a, TYPE.f32), cells],
    params: [cache.ne[0], cache.ne[1], v, rotation],
    scratch: KV_STORE_SCRATCH.size + l.quantizeWork + (rotation ? 4 * a.ne[0] : 0),
  });
};

const attention: Lower = (l, t) => {
  const [q, k, v, first, visible, bias, slopes, sinks] = operands(t);
  const sources = { q: l.rowsOf(q, TYPE.f32), k, v, first, visible, bias, slopes, sinks };
  for (const record of attentionRecords(sources, t.params, t, l.target)) l.push(record);
};

const recurrent: Lower = (l, t) => l.push(recurrentRecord(t, (x) => l.f32(x)));

/** Ops that are not simply one record of the kernel of their name. */
const OPS: { readonly [op in Tensor['op']]?: Lower } = {
  get_rows(l, t) {
    const [a, rows] = operands(t);
    l.push({ code: 'GET_ROWS', dst: t, src: [a, rows], params: [], scratch: a.layout === 'packed' ? l.packedScratch : 0 });
  },
  set_rows(l, t) {
    const [a, rows] = operands(t);
    l.push({ code: 'SET_ROWS', dst: t, src: [l.f32(a), rows], params: [], scratch: l.quantizeWork });
  },
  cpy: (l, t) => l.copy(operands(t)[0], t),
  concat(l, t) {
    const [a, b] = operands(t);
    const { dim } = t.params;
    l.copy(a, partOf(t, a));
    l.copy(b, partOf(t, b, a.ne[dim] * t.nb[dim]));
  },
  pad(l, t) {
    const [a] = operands(t);
    const { l0, l1, l2, l3 } = t.params;
    l.push({ code: 'CPY', dst: t, src: [], params: [COPY.zeros, t.nb[1]], how: 'zeros' });
    l.copy(a, partOf(t, { ...a, batch: undefined }, l0 * t.nb[0] + l1 * t.nb[1] + l2 * t.nb[2] + l3 * t.nb[3]));
  },
  mul_mat: mulMat,
  mul_mat_id: mulMatId,
  mul_mat_sparse: (l, t) => pushSparse(t, l),
  axpy: (l, t) => pushSparse(t, l),
  mul_mat_parts(l, t) {
    const [a, b, parts] = operands(t);
    const kernel = chooseMulMat(a, b, false, l.target);
    l.push({
      code: 'MUL_MAT_PARTS',
      dst: t,
      src: [l.rowsOf(a, kernel.src0), l.rowsOf(b, kernel.src1), parts],
      params: [],
      how: kernel.how,
    });
  },
  group_list(l, t) {
    const { kind, groups, limit, unit } = t.params;
    l.push({ code: 'GROUP_LIST', dst: t, src: [operands(t)[0]], params: [kind, groups, limit, unit] });
  },
  add_id(l, t) {
    const [a, b, ids] = operands(t);
    l.push({ code: 'ADD_ID', dst: t, src: [l.anyStrides(a), l.anyStrides(b), ids], params: [BINARY.add] });
  },
  binary,
  rms_norm: rmsNorm,
  rope(l, t) {
    const [a, positions, table] = operands(t);
    const { n_dims, neox } = t.params;
    l.into(t, (dst) => l.push({ code: 'ROPE', dst, src: [l.f32(a), positions, table], params: [n_dims, neox] }));
  },
  soft_max(l, t) {
    const [a, mask, sinks] = operands(t);
    l.into(t, (dst) => l.push({ code: 'SOFT_MAX', dst, src: [l.f32(a), mask, sinks], params: [{ f: t.params.scale }] }));
  },
  mean_of_rows(l, t) {
    const [a, b, c] = operands(t);
    l.push({ code: 'MEAN_OF_ROWS', dst: t, src: [l.f32(a), b, c], params: [] });
  },
  im2col(l, t) {
    const [a] = operands(t);
    const { kw, kh, s0, s1, p0, p1, d0, d1 } = t.params;
    const src = [a.type === t.type ? a : l.converting(a, t.type)];
    l.push({ code: 'IM2COL', dst: t, src, params: [kw, kh, s0, s1, p0, p1, d0, d1] });
  },
  kv_store: kvStore,
  ssm_conv: recurrent,
  ssm_scan: recurrent,
  gated_delta_net: recurrent,
  in_sum2(l, t) {
    const [a, b, c] = operands(t);
    l.push({ code: 'IN_SUM2', dst: t, src: [l.rowsOf(a, TYPE.f32), b, c], params: [], ...(c && { writtenSrc: [c] }) });
  },
  attention,
  flash_attn_ext: (l, t) => pushFlashAttn(t, l),
};

/**
 * True if `t` is a sum of equal shapes that the RMS norm after it can compute. A norm whose weight
 * is a view of the sum cannot.
 */
function fusesWithNorm(t: Tensor, next: Tensor | undefined): boolean {
  if (next?.op !== 'rms_norm' || next.src[0] !== t || t.op !== 'binary' || t.params.kind !== BINARY.add || t.viewOf) return false;
  const [a, b] = t.src as readonly Tensor[];
  const weight = next.src[1];
  return (!weight || baseOf(weight) !== t) && sameShape(a, b) && [a, b, t].every((x) => x.type === TYPE.f32 && hasContiguousRows(x));
}
