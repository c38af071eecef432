/** Tensors and op records, and the addresses of a tensor's rows. */
import { Tensor } from '../layout';

export { Op, Tensor } from '../layout';

/** Address of row (i1, i2, i3). */
@inline
export function row_of(t: Tensor, i1: i32, i2: i32, i3: i32): usize {
  return t.data + <usize>i1 * t.nb1 + <usize>i2 * t.nb2 + <usize>i3 * t.nb3;
}

/** Rows of a tensor: ne1 * ne2 * ne3. */
@inline
export function nrows(t: Tensor): i32 {
  return t.ne1 * t.ne2 * t.ne3;
}

/** Address of row r, counting all rows in order. */
@inline
export function row_at(t: Tensor, r: i32): usize {
  const per2 = t.ne1;
  const per3 = per2 * t.ne2;
  return t.data + <usize>(r % per2) * t.nb1 + <usize>((r / per2) % t.ne2) * t.nb2 + <usize>(r / per3) * t.nb3;
}

/** Stores n f32 NaN: the result for an index outside its table. */
export function fill_nan(y: usize, n: i32): void {
  for (const end = y + (<usize>n << 2); y < end; y += 4) store<u32>(y, 0x7fc00000);
}

/**
 * True if dimensions 0..dim of a tensor of 4-byte elements have no gaps, so that one loop can walk
 * them.
 */
export function joins(t: Tensor, dim: i32): bool {
  if (t.nb0 != 4) return false;
  if (t.ne1 > 1 && t.nb1 != <u32>t.ne0 << 2) return false;
  if (dim > 1 && t.ne2 > 1 && t.nb2 != <u32>(t.ne0 * t.ne1) << 2) return false;
  return dim < 3 || t.ne3 <= 1 || t.nb3 == <u32>(t.ne0 * t.ne1 * t.ne2) << 2;
}

/** True if all elements, of 4 bytes, lie without gaps. */
@inline
export function is_dense(t: Tensor): bool {
  return joins(t, 3);
}
