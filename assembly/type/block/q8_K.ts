/**
 * q8_K: 256 elements in 292 bytes, x = d * q, with the sum of every 16 codes.
 *
 *   0        4                    260                       292
 *   | d: f32 | qs: 256 x i8       | bsums: 16 x i16         |
 *
 * Only for activations: the vec_dot_type of every format of 256.
 */
import { sum16 } from './q8_1';
import { low_bytes, nearest_i32x4, store_i8_scaled } from './words';

@inline
const BYTES: usize = 292;

export function dequantize_row_q8_K(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f32x4.splat(load<f32>(x));
    for (let q_end = x + 260, q = x + 4; q < q_end; q += 16, y += 64) store_i8_scaled(y, v128.load(q), d);
  }
}

/** Element of largest magnitude (the first if several are equal). NaNs are ignored. */
function block256_signed_max(x: usize): f32 {
  let most = f32x4.splat(0);
  for (let j: usize = 0; j < 1024; j += 16) most = f32x4.pmax(most, f32x4.abs(v128.load(x + j))); // pmax keeps `most` if x is NaN
  let amax = f32x4.extract_lane(most, 0);
  if (f32x4.extract_lane(most, 1) > amax) amax = f32x4.extract_lane(most, 1);
  if (f32x4.extract_lane(most, 2) > amax) amax = f32x4.extract_lane(most, 2);
  if (f32x4.extract_lane(most, 3) > amax) amax = f32x4.extract_lane(most, 3);
  if (amax == 0) return 0;
  while (abs(load<f32>(x)) != amax) x += 4;
  return load<f32>(x);
}

/** min(127, nearest(iscale * x)) of four f32. */
@inline
function quant4(x: usize, iscale: v128): v128 {
  return i32x4.min_s(i32x4.splat(127), nearest_i32x4(f32x4.mul(v128.load(x), iscale)));
}

/**
 * Quantises k elements. If a block is all zero, ggml leaves bsums as they were; here they become
 * zero.
 */
export function quantize_row_q8_K(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    const max = block256_signed_max(x);
    if (max == 0) {
      memory.fill(y, 0, BYTES);
      continue;
    }
    const iscale: f32 = -127 / max;
    const is = f32x4.splat(iscale);
    store<f32>(y, 1 / iscale);
    for (let j: usize = 0; j < 16; j++) {
      const p = x + 64 * j;
      const q = low_bytes(quant4(p, is), quant4(p + 16, is), quant4(p + 32, is), quant4(p + 48, is));
      v128.store(y + 16 * j, q, 4);
      const s = sum16(q);
      store<i16>(
        y + 2 * j,
        <i16>(i32x4.extract_lane(s, 0) + i32x4.extract_lane(s, 1) + i32x4.extract_lane(s, 2) + i32x4.extract_lane(s, 3)),
        260,
      );
    }
  }
}
