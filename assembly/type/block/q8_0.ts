/**
 * q8_0: 32 elements in 34 bytes, x = d * q.
 *
 *   0        2                              34
 *   | d: f16 | qs: 32 x i8                  |
 *
 * Also the vec_dot_type of q4_0, q5_0, q8_0, iq4_nl and mxfp4.
 */
import { dot_i8, f16_to_f32, f32_to_f16, hmax_f32, hsum_f32, madd, round_f32x4 } from '../../simd';
import { is_nan_f32x4, low_bytes, store_i8_scaled, trunc_i32x4 } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 34;

export function dequantize_row_q8_0(x: usize, y: usize, k: i32): void {
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    store_i8_scaled(y, v128.load(x, 2), d);
    store_i8_scaled(y + 64, v128.load(x, 18), d);
  }
}

/**
 * max |x| of a block with a NaN. ggml's MAX(amax, |v|) starts again after each NaN, and returns a
 * NaN in last place.
 */
function amax_after_nan(x: usize): f32 {
  let amax: f32 = 0;
  for (const end = x + 128; x < end; x += 4) {
    const v = abs(load<f32>(x));
    amax = amax > v ? amax : v;
  }
  return amax;
}

/** max |x| of 32 f32, as ggml's loop computes it. */
export function block32_amax(x: usize): f32 {
  let nan = is_nan_f32x4(v128.load(x));
  let m = f32x4.abs(v128.load(x));
  for (let j: usize = 16; j < 128; j += 16) {
    const v = v128.load(x + j);
    nan = v128.or(nan, is_nan_f32x4(v));
    m = f32x4.pmax(m, f32x4.abs(v));
  }
  return v128.any_true(nan) ? amax_after_nan(x) : hmax_f32(m);
}

/** round(x * id) of four f32 as i32. */
@inline
function quant4(x: usize, id: v128): v128 {
  return trunc_i32x4(round_f32x4(f32x4.mul(v128.load(x), id)));
}

/**
 * Stores round(x * id) of sixteen f32 as bytes at y. (Not inlined, and neither is block32_amax,
 * since q8_1 uses them too.)
 */
export function quant16(x: usize, by: f32, y: usize): void {
  const id = f32x4.splat(by);
  v128.store(y, low_bytes(quant4(x, id), quant4(x + 16, id), quant4(x + 32, id), quant4(x + 48, id)));
}

export function quantize_row_q8_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const d = block32_amax(x) / 127;
    const id: f32 = d != 0 ? 1 / d : 0;
    store<u16>(y, <u16>f32_to_f16(d));
    quant16(x, id, y + 2);
    quant16(x + 64, id, y + 18);
  }
}

/**
 * q8_0 . q8_0. Both sides may hold any byte, -128 included. Products are i16 x i16, exact in every
 * build.
 */
export function vec_dot_q8_0_q8_0(n: i32, x: usize, y: usize): f32 {
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += BYTES) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    const s = i32x4.add(dot_i8(v128.load(x, 2), v128.load(y, 2)), dot_i8(v128.load(x, 18), v128.load(y, 18)));
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
