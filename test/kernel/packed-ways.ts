/**
 * Packed products by the kernels' exports alone: packing rows, quantising activations to 8 bits,
 * multiplying.
 */
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName, TypeTraits } from '../../src/type-traits.ts';
import type { Kernels } from './harness.ts';

export interface Packed {
  readonly w: number;
  readonly ne00: number;
  readonly nrows: number;
  /** Type of the packed form. */
  readonly type: TypeTraits;
  /** Number of packed blocks with a scale that is not finite. */
  readonly bad: number;
}

export function pack(k: Kernels, type: TypeName, plain: Uint8Array, ne00: number, nrows: number, to: TypeTraits = TYPE[type]): Packed {
  const R = k.call('packed_rows');
  const groups = Math.ceil(nrows / R);
  const stride = plain.length / nrows;
  const packed = rowSize(to, ne00);
  const w = k.arena.alloc(packed * groups * R);
  const src = k.arena.alloc(stride * groups * R);
  new Uint8Array(k.memory.buffer).set(plain, src);
  // The last row block alone, then the others together: row blocks are independent.
  const last = (groups - 1) * R;
  let bad = k.call('repack', TYPE[type].id, to.id, src + last * stride, w + last * packed, ne00, nrows - last);
  bad += k.call('repack', TYPE[type].id, to.id, src, w, ne00, last);
  k.arena.checkGuards();
  return { w, ne00, nrows, type: to, bad };
}

/**
 * Quantises rows as activation columns for weights of `type`. Their layout depends on their number.
 * `bits`: ACT_4 for activations of 4 bits.
 */
export function quantize(k: Kernels, type: TypeTraits, rows: readonly Float32Array[], bits = 0): { act: number; stride: number } {
  const actType = k.call('packed_act_type', type.id) | bits;
  const stride = k.call('act_row_size', actType, rows[0].length);
  // Four columns and more need room for a multiple of four.
  const act = k.arena.alloc(stride * (rows.length < 4 ? rows.length : (rows.length + 3) & ~3));
  for (const [i, row] of rows.entries()) k.call('quantize_act', actType, k.arena.f32(row), 0, row.length, act, stride, i, rows.length);
  return { act, stride };
}

/** Columns x (row1 - row0) results, column by column, computed `chunk` rows at a time. */
export function product(
  k: Kernels,
  p: Packed,
  columns: readonly Float32Array[],
  row0 = 0,
  row1 = p.nrows,
  chunk = row1 - row0,
  bits = 0,
): Float32Array {
  const n = row1 - row0;
  const { act, stride } = quantize(k, p.type, columns, bits);
  const dst = k.arena.alloc(n * columns.length * 4, 4);
  const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
  for (let row = row0; row < row1; row += chunk)
    k.call(
      'mul_mat_packed',
      p.type.id,
      p.w,
      p.ne00,
      row,
      Math.min(row + chunk, row1),
      act,
      stride,
      columns.length,
      dst - row0 * 4,
      n * 4,
      scratch,
    );
  k.arena.checkGuards();
  return k.arena.readF32(dst, n * columns.length);
}
