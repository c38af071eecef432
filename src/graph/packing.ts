/** Which matrices are packed for the packed GEMM and GEMV (assembly/matmul/), who can read them then, and the record that packs one. */
import { alignUp } from '../gguf/types.ts';
import { isMx, rowSize, type TypeTraits } from '../type-traits.ts';
import { ACT_BLOCK, ROW_BLOCK } from './layout.ts';
import type { OpRecord } from './record.ts';
import { contiguousNb, type Tensor } from './tensor.ts';

/**
 * Whether there are packed kernels for a tensor's type and shape: rows that are whole blocks of 32, or floats, of one matrix, or of several that are whole
 * groups of rows each. These are packed as one, and mul_mat_id reads them.
 */
export function canPack({ type, ne }: Tensor): boolean {
  if (!type.kernels?.packed || ne[3] !== 1 || (ne[2] !== 1 && ne[1] % ROW_BLOCK !== 0)) return false;
  return ne[0] % ACT_BLOCK === 0 || !type.kernels.packed.act;
}

/** What packed matrices take: the last group of rows is filled up with zeros. */
export const packedBytes = ({ ne, nb }: Tensor): number => alignUp(ne[1] * ne[2], ROW_BLOCK) * nb[1];

/** Bytes that a thread reads of a file at a time: few enough that they are in L2 when it packs them. */
const PIECE_BYTES = 256 << 10;

/** Rows of a matrix that are read and packed at a time, whole row blocks. */
export const pieceRows = ({ ne, nb }: Tensor): number =>
  Math.min(alignUp(ne[1] * ne[2], ROW_BLOCK), ROW_BLOCK * Math.max(1, Math.floor(PIECE_BYTES / (ROW_BLOCK * nb[1]))));

/** Whether a node can read its source i where that is packed: not where its activations are to keep their f32, or their MX blocks. */
export const readsPacked = ({ op, src, params }: Tensor, i: number): boolean =>
  isDense(op, i) ||
  (i === 0 &&
    (op === 'get_rows'
      ? src[0]?.ne[2] === 1
      : op === 'mul_mat_sparse' || (inPackedProduct(op, src[0]) && params.f32 !== 1 && !isMx(src[1]!.type))));

const inPackedProduct = (op: Tensor['op'], a: Tensor | undefined): boolean => op === 'mul_mat_id' || (op === 'mul_mat' && a?.ne[2] === 1);

/** Whether source i is the `dense` of sparse-ops.ts, which only packed weights can be. */
export const isDense = (op: Tensor['op'], i: number): boolean => i === 4 && (op === 'mul_mat_sparse' || op === 'axpy');

/**
 * Packs `dst` in place, whose plain rows are of type `from`; where that is another one, those of a row block lie where its place begins. `broken`: i32 [1],
 * becomes 1 where a scale in it is Inf or NaN.
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
 * Marks the weights of a graph that only products and look-ups of rows read as packed, and returns them.
 * @param fast whether those of types that can be packed as a faster one (type-traits.ts) become so: they then have that type
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
