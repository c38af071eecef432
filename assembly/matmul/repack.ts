/**
 * Conversion of plain rows, as GGUF has them, to row blocks of 16 rows. These take the same bytes,
 * or more if packed as a faster type (`fast` in src/type-traits.ts). Rows missing in the last row
 * block become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { act_type, f16_vectors, pack_block, pack_fast } from './by_type';
import { ROWS } from './format/group';
import { F16, F32, blck_size, type_size } from '../type/ids';

/**
 * Packs the nrows plain rows of ne00 at src to w. `to` is the type of the packed rows: the same, or
 * the faster one that it can be packed as. src and w have room for whole row blocks. Returns the
 * number of packed blocks with a scale that is not finite; for f16, the number of row blocks with
 * such a weight.
 */
export function repack_rows(type: u32, to: u32, src: usize, w: usize, ne00: i32, nrows: i32): i32 {
  const stride = <usize>(<u32>ne00 / blck_size(type)) * type_size(type);
  const row = act_type(type) == F32 ? stride : <usize>type_size(type); // A row of floats is packed as one block.
  const checked = type == F16 ? row * ROWS : <usize>f16_vectors(type) << 5;
  const packed = (to != type ? <usize>type_size(to) : row) * ROWS;
  memory.fill(src + <usize>nrows * stride, 0, <usize>(-nrows & (ROWS - 1)) * stride);
  let bad = 0;
  for (; nrows > 0; nrows -= ROWS, src += stride * (ROWS - 1)) {
    for (const end = src + stride; src < end; src += row, w += packed) {
      if (to != type) pack_fast(type, src, stride, w);
      else pack_block(type, src, stride, w, ne00);
      let infinite = i32x4.splat(0);
      for (let p = w; p < w + checked; p += 16) {
        const h = v128.and(v128.load(p), i16x8.splat(0x7c00));
        infinite = v128.or(infinite, i16x8.eq(h, i16x8.splat(0x7c00)));
      }
      bad += v128.any_true(infinite) ? 1 : 0;
    }
  }
  return bad;
}
