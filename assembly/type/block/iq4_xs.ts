/**
 * iq4_xs: 256 elements in 136 bytes, x = d * (scale - 32) * KVALUES[q], levels as in iq4_nl;
 * sub-blocks of 32.
 *
 *   0        2                4                   8                                           136
 *   | d: f16 | scales_h: u16, | scales_l: u32,    | qs: 8 x 16 bytes, low nibble 32j + i,     |
 *              bits 2j: high 2  bits 4j: low 4      high 32j + 16 + i
 *              bits of scale j  bits of scale j
 */
import { dot_i8, f16_to_f32, hsum_f32, lookup16, madd, splat_u6 } from '../../simd';
import { kvalues_iq4nl, quantize_block_iq4_xs } from './iq4_nl';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 136;

/** Scale j of the block at x, -32..31. */
@inline
function scale_of(x: usize, j: usize): i32 {
  return <i32>(((load<u32>(x, 4) >> (4 * <u32>j)) & 15) | (((<u32>load<u16>(x, 2) >> (2 * <u32>j)) & 3) << 4)) - 32;
}

export function dequantize_row_iq4_xs(x: usize, y: usize, k: i32): void {
  const table = kvalues_iq4nl();
  const mask = i8x16.splat(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f16_to_f32(load<u16>(x));
    for (let j: usize = 0; j < 8; j++, y += 128) {
      const q = v128.load(x + 16 * j, 8);
      const dl = f32x4.splat(d * <f32>scale_of(x, j));
      store_i8_scaled(y, lookup16(table, v128.and(q, mask)), dl);
      store_i8_scaled(y + 64, lookup16(table, v128.and(i16x8.shr_u(q, 4), mask)), dl);
    }
  }
}

/**
 * Quantises k elements. imatrix 0: as ggml's quantize_row_iq4_xs_ref, which runs the same search.
 */
export function quantize_imatrix_iq4_xs(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    quantize_block_iq4_xs(x, y, imatrix, work);
    if (imatrix) imatrix += 1024;
  }
}

export function quantize_row_iq4_xs(x: usize, y: usize, k: i32, work: usize): void {
  quantize_imatrix_iq4_xs(x, y, k, 0, work);
}

export function vec_dot_iq4_xs_q8_K(n: i32, x: usize, y: usize): f32 {
  const table = kvalues_iq4nl();
  const mask = splat_u6(15);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = f16_to_f32(load<u16>(x)) * load<f32>(y);
    let s = i32x4.splat(0);
    for (let j: usize = 0; j < 8; j++) {
      const q = v128.load(x + 16 * j, 8);
      const p = y + 32 * j;
      const sub = i32x4.add(
        dot_i8(lookup16(table, v128.and(q, mask)), v128.load(p, 4)),
        dot_i8(lookup16(table, v128.and(i16x8.shr_u(q, 4), mask)), v128.load(p, 20)),
      );
      s = i32x4.add(s, i32x4.mul(sub, i32x4.splat(scale_of(x, j))));
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
