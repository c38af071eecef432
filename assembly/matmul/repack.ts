/**
 * Plain rows, as GGUF has them, to row blocks of 16 rows, which take the same bytes; of a type that is faster (`fast` in src/type-traits.ts) more.
 * The rows that the last row block misses become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { act_type, f16_vectors, pack_block, pack_fast } from './by_type';
import { ROWS } from './format/group';
import { F16, F32, blck_size, type_size } from '../type/ids';

/**
 * Packs the nrows plain rows of ne00 at src to w, where their type is `to`: the same, or the one that it can be packed as besides. Both have room for whole row
 * blocks. Returns how many packed blocks have a scale that is not finite, or of f16 how many row blocks such a number.
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
