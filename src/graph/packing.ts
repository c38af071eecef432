/**
 * Packing of matrices for the packed GEMM and GEMV (assembly/matmul/): which can be packed, which
 * ops can read them then, and the record that packs one.
 */
import { alignUp } from '../align.ts';
import { isMx, rowSize, type TypeTraits } from '../type-traits.ts';
import { ACT_BLOCK, ROW_BLOCK } from './layout.ts';
import type { OpRecord } from './record.ts';
import { contiguousNb, type Tensor } from './tensor.ts';

/**
 * True if there are packed kernels for a tensor's type and shape. A row is whole blocks of 32, or
 * floats. Several matrices need whole row blocks each; they are packed as one, and mul_mat_id reads
 * them.
 */
export function canPack({ type, ne }: Tensor): boolean {
  if (!type.kernels?.packed || ne[3] !== 1 || (ne[2] !== 1 && ne[1] % ROW_BLOCK !== 0)) return false;
  return ne[0] % ACT_BLOCK === 0 || !type.kernels.packed.act;
}

/** Bytes of a packed matrix; its last row block is padded with zeros. */
export const packedBytes = ({ ne, nb }: Tensor): number => alignUp(ne[1] * ne[2], ROW_BLOCK) * nb[1];

/** Bytes that a thread reads from a file at a time: small enough to be in L2 when it packs them. */
const PIECE_BYTES = 256 << 10;

/** Rows of a matrix that are read and packed at a time: whole row blocks. */
export const pieceRows = ({ ne, nb }: Tensor): number =>
  Math.min(alignUp(ne[1] * ne[2], ROW_BLOCK), ROW_BLOCK * Math.max(1, Math.floor(PIECE_BYTES / (ROW_BLOCK * nb[1]))));

/**
 * True if a node can read its source i in packed form. It cannot if its activations must stay f32
 * or MX blocks.
 */
export const readsPacked = ({ op, src, params }: Tensor, i: number): boolean =>
  isDense(op, i) ||
  (i === 0 &&
    (op === 'get_rows'
      ? src[0]?.ne[2] === 1
      : op === 'mul_mat_sparse' || (inPackedProduct(op, src[0]) && params.f32 !== 1 && !isMx(src[1]!.type))));

const inPackedProduct = (op: Tensor['op'], a: Tensor | undefined): boolean => op === 'mul_mat_id' || (op === 'mul_mat' && a?.ne[2] === 1);

/** True if source i is `dense` of sparse-ops.ts, which is only used if packed. */
export const isDense = (op: Tensor['op'], i: number): boolean => i === 4 && (op === 'mul_mat_sparse' || op === 'axpy');

/**
 * Packs `dst` in place. Its plain rows have type `from`. If that is another type than that of
 * `dst`, the rows of a row block begin where their packed form will.
 * @param broken i32 [1], becomes 1 if a scale is Inf or NaN
 */
export const repackRecord = (dst: Tensor, broken?: Tensor, from: TypeTraits = dst.type): OpRecord => ({
  code: 'REPACK',
  dst,
  src: [broken],
  params: [from.id, rowSize(from, dst.ne[0])],
  ...(broken && { writtenSrc: [broken] }),
  scratch: ROW_BLOCK * rowSize(from, dst.ne[0]),
});

/**
 * Marks as packed, and returns, the weights of a graph that only products and look-ups of rows
 * read.
 * @param fast true: weights with a faster type (type-traits.ts) are packed as that type, which
 * becomes theirs
 */
export function packWeights(nodes: readonly Tensor[], fast = false): Tensor[] {
  const products = nodes.filter((n) => (n.op === 'mul_mat' || n.op === 'mul_mat_id') && readsPacked(n, 0));
  const dense = nodes.flatMap((n) => n.src.filter((s, i) => s && isDense(n.op, i)));
  const packed = new Set([...products.map((n) => n.src[0]!), ...(dense as Tensor[])].filter((w) => w.op === 'leaf' && canPack(w)));
  for (const n of nodes) n.src.forEach((s, i) => s && !readsPacked(n, i) && packed.delete(s));
  for (const w of packed) {
    w.layout = 'packed';
    const type = fast ? w.type.kernels?.fast : undefined;
    if (type) Object.assign(w, { type, nb: contiguousNb(type, w.ne) });
  }
  return [...packed];
}
