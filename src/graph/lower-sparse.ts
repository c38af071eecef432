/** Records of the products of which only some rows count (sparse-ops.ts). */
import { rowSize, TYPE, type TypeTraits } from '../type-traits.ts';
import { ACC_BYTES, AXPY_SCRATCH, PLAIN_ROWS, ROW_BLOCK, SPARSE_TURN } from './layout.ts';
import { temporary, type OpRecord } from './record.ts';
import type { Tensor } from './tensor.ts';

/** What lowering has for them. */
interface Lowering {
  /** The type of activations that packed products by weights of a type take. */
  actType(weights: TypeTraits): TypeTraits;
  /** Columns one by one in a type. */
  apart(x: Tensor, type: TypeTraits): Tensor;
  /** x with contiguous rows of a type. */
  rowsOf(x: Tensor, type: TypeTraits): Tensor;
  /** What is made of idx and `lookup` once for all that read it, by its name. */
  once(idx: Tensor, what: string, lookup: Tensor | undefined, make: () => Tensor): Tensor;
  push(record: OpRecord): void;
  /** Bytes of mul_mat_packed_scratch(). */
  readonly scratch: number;
}

/** The list of rows that count (assembly/ops/sparse.ts). */
function rowsThatCount(t: Tensor, { once, rowsOf, push }: Lowering): Tensor {
  const [w, , idx, lookup] = t.src as readonly [Tensor, Tensor, Tensor, Tensor | undefined];
  const { nonzero, threshold, per } = t.params;
  const how = nonzero ? 'elements that are not 0' : `elements of at least ${threshold}`;
  return once(idx, `${how}, ${per} of ${w.ne[1]} rows each`, lookup, () => {
    const list = temporary(`rows of ${idx.name || idx.op}`, TYPE.i32, idx, [1 + w.ne[1], idx.ne[1], 1, 1], idx.batch);
    push({
      code: 'ACTIVE_ROWS',
      dst: list,
      src: [rowsOf(idx, TYPE.f32), lookup],
      params: [nonzero, { f: threshold }, per],
      scratch: lookup ? 4 * idx.ne[0] : 0,
      how,
    });
    return list;
  });
}

/** Lowers mul_mat_sparse and axpy. */
export function pushSparse(t: Tensor, lowering: Lowering): void {
  const [w, x, , lookup, given] = t.src as readonly [Tensor, Tensor, Tensor, Tensor | undefined, Tensor | undefined];
  // A model's weights may have no packed form.
  const dense = given?.layout === 'packed' ? given : undefined;
  const { actType, apart, rowsOf, push, scratch } = lowering;
  const list = rowsThatCount(t, lowering);
  const turns = dense ? `; packed rows where more than ${SPARSE_TURN[t.op as keyof typeof SPARSE_TURN]} of 16 count` : '';
  if (t.op === 'axpy')
    push({
      code: 'AXPY',
      dst: t,
      src: [w, rowsOf(x, TYPE.f32), list, lookup, dense, dense && apart(x, actType(dense.type))],
      params: [],
      scratch: Math.max(AXPY_SCRATCH, dense ? scratch : 0),
      how: `${w.type.name} rows in f32${turns}`,
    });
  else {
    const type = actType(w.type);
    const packed = w.layout === 'packed';
    const plain = !packed && PLAIN_ROWS.includes(w.type.name);
    push({
      code: 'MUL_MAT_SPARSE',
      dst: t,
      src: [w, apart(x, type), list, lookup, dense],
      params: [],
      // Behind the sums of a row block: what its product wants, and 16 rows to pack twice.
      scratch: ACC_BYTES + scratch + (packed || plain ? 0 : 2 * ROW_BLOCK * rowSize(w.type, w.ne[0])),
      how: `${w.type.name} x ${type.name}: ${packed ? `row blocks of ${ROW_BLOCK} where a row counts` : plain ? 'rows_4x1, single rows' : `single rows, packed ${ROW_BLOCK} at a time`}${turns}`,
    });
  }
}
