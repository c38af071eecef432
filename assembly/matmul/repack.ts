/**
 * Plain rows, as GGUF has them, to row blocks of 16 rows, which take the same bytes; of a type that is faster (`fast` in src/type-traits.ts) more.
 * The rows that the last row block misses become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { facts, pack_block, pack_fast } from './by_type';
import { ALL_F16, IS_FLOAT, blocks_of, f16_vectors, row_bytes } from './facts';
import { ROWS } from './format/group';

/**
 * Packs the nrows plain rows of ne00 at src to w, where their type is `to`: the same, or the one that it can be packed as besides. Both have room for whole row
 * blocks. Returns how many packed blocks have a scale that is not finite, or of f16 how many row blocks such a number.
 */
export function repack_rows(type: u32, to: u32, src: usize, w: usize, ne00: i32, nrows: i32): i32 {
  const f = facts(type);
  const whole = (f & IS_FLOAT) != 0; // A row of floats is packed as one block.
  const row = whole ? <usize>ne00 * row_bytes(f) : row_bytes(f);
  const stride = whole ? row : <usize>blocks_of(f, ne00) * row;
  const checked = (f & ALL_F16) != 0 ? row * ROWS : whole ? 0 : <usize>f16_vectors(f) << 5;
  const packed = (to != type ? row_bytes(facts(to)) : row) * ROWS;
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
