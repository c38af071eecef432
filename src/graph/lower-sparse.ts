/** Records of products with selected rows (sparse-ops.ts). */
import { rowSize, TYPE } from '../type-traits.ts';
import { AXPY_SCRATCH, ROW_BLOCK, SPARSE_SCRATCH, SPARSE_TURN } from './layout.ts';
import type { Lowering } from './lowering.ts';
import { actType } from './packed-products.ts';
import { temporary } from './record.ts';
import type { Tensor } from './tensor.ts';

/**
 * Maps each of n elements to the row that stands for it (assembly/ops/sparse.ts inverse_lookup).
 */
function inverseOf(lookup: Tensor, n: number, lowering: Lowering): Tensor {
  return lowering.once(lookup, `row of each of ${n} elements`, undefined, () => {
    const rows = temporary(`inverse of ${lookup.name || lookup.op}`, TYPE.i32, lookup, [n, 1, 1, 1]);
    lowering.push({ code: 'INVERSE_LOOKUP', dst: rows, src: [lookup], params: [] });
    return rows;
  });
}

/**
 * Bytes that the first product of a bundle's rows prefetches from each row's beginning, for the
 * later products: the whole row if w is the bundle's first part, else 0.
 */
const bundled = ({ viewOf, viewOffset, ne, nb }: Tensor): number =>
  viewOf && viewOffset === 0 && viewOf.ne[1] === ne[1] && viewOf.nb[1] === nb[1] ? nb[1] : 0;

/** Lowers mul_mat_sparse and axpy. */
export function pushSparse(t: Tensor, lowering: Lowering): void {
  const [w, x, idx, lookup, given, times] = t.src as readonly [Tensor, Tensor, Tensor, ...(Tensor | undefined)[]];
  // A model's weights may have no packed form.
  const dense = given?.layout === 'packed' ? given : undefined;
  const { target, packedScratch: scratch } = lowering;
  const { nonzero, threshold, per } = t.params;
  const counting = [lowering.rowsOf(idx, TYPE.f32), lookup && inverseOf(lookup, idx.ne[0], lowering)];
  const params = [nonzero, { f: threshold }, per];
  const which = `elements ${nonzero ? (threshold === 0 ? 'that pass a ReLU' : 'that are not 0') : `of at least ${threshold}`}`;
  const turns = dense ? `; packed rows where more than ${SPARSE_TURN[t.op as keyof typeof SPARSE_TURN]} of 16 count` : '';
  if (t.op === 'axpy') {
    const type = dense && actType(dense.type, target);
    lowering.push({
      code: 'AXPY',
      dst: t,
      src: [w, lowering.rowsOf(x, TYPE.f32), ...counting, dense],
      params: [...params, type?.id ?? 0, dense ? lowering.fetched(dense) : 0],
      // Holds a column in the form that packed products read, and their scratch.
      scratch: Math.max(AXPY_SCRATCH.size, type ? rowSize(type, x.ne[0]) + scratch : 0),
      how: `${w.type.name} rows of ${which} in f32${turns}`,
    });
  } else {
    const type = actType(w.type, target);
    const packed = w.layout === 'packed';
    const plain = !packed && w.type.kernels?.plainRows === true;
    const rows = packed ? `row blocks of ${ROW_BLOCK}` : plain ? 'rows_8x1, single rows' : `single rows, packed ${ROW_BLOCK} at a time,`;
    lowering.push({
      code: 'MUL_MAT_SPARSE',
      dst: t,
      src: [w, lowering.separateColumns(x, type), ...counting, dense, times && lowering.rowsOf(times, TYPE.f32)],
      params: [...params, dense ? lowering.fetched(dense) : 0, plain ? bundled(w) : 0],
      // After the kernel's own: scratch of a row block's product, and space for 16 rows, twice, to
      // pack them.
      scratch: SPARSE_SCRATCH.size + scratch + (packed || plain ? 0 : 2 * ROW_BLOCK * rowSize(w.type, w.ne[0])),
      how: `${w.type.name} x ${type.name}: ${rows} of ${which}${turns}`,
    });
  }
}
