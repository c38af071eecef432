/**
 * mxfp4: 32 elements in 17 bytes (OCP Microscaling E2M1 with an E8M0 scale), x = 2^(e - 128) *
 * KVALUES[q]. The values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives are stored doubled, as
 * integers, so the scale is halved.
 *
 *   0       1                                            17
 *   | e: u8 | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { lookup16 } from '../../simd';
import { low_bytes, store_i8_scaled } from './words';

@inline
const BYTES: usize = 17;

@inline
export function kvalues_mxfp4(): v128 {
  return i8x16(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
}

const VALUES = memory.data<f32>([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], 16);

/** 2^(e - 128), subnormal for e < 2. */
@inline
export function e8m0_to_f32_half(e: u32): f32 {
  return reinterpret<f32>(e < 2 ? 0x00200000 << e : (e - 1) << 23);
}

export function dequantize_row_mxfp4(x: usize, y: usize, k: i32): void {
  const table = kvalues_mxfp4();
  const mask = i8x16.splat(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(e8m0_to_f32_half(load<u8>(x)));
    const q = v128.load(x, 1);
    store_i8_scaled(y, lookup16(table, v128.and(q, mask)), d);
    store_i8_scaled(y + 64, lookup16(table, v128.and(i16x8.shr_u(q, 4), mask)), d);
  }
}

/**
 * floor(log2f(x)) of a positive finite x, as C computes it. log2f rounds to f32, so just below a
 * power of two it may already give the next integer v. It does if the distance to v is under half
 * an f32 step below v. For the mantissa 2 - n * 2^-23, the distance is n * 2^-24 / ln 2.
 */
function floor_log2f(x: f32): i32 {
  const bits = reinterpret<u64>(<f64>x);
  const exponent = <i32>(bits >> 52) - 1023;
  const v = exponent + 1;
  if (v == 0) return exponent;
  const n = <f64>((<u64>1 << 52) - (bits & 0xfffffffffffff)) / <f64>(1 << 29); // steps of 2^-23 below 2
  const magnitude = abs(v);
  let octave = 31 - clz(magnitude);
  if (v > 0 && popcnt(magnitude) == 1) octave--;
  const half_step = octave < 0 ? 0.5 : <f64>(1 << octave);
  return n * 1.4426950408889634 < half_step ? v : exponent;
}

/** Index of the value nearest to each of four f32 (the first if several are equally near). */
function nearest4(x: v128, d: v128): v128 {
  let best = f32x4.abs(f32x4.sub(f32x4.mul(v128.load32_splat(VALUES), d), x));
  let index = i32x4.splat(0);
  for (let i = 1; i < 16; i++) {
    const error = f32x4.abs(f32x4.sub(f32x4.mul(v128.load32_splat(VALUES + (<usize>i << 2)), d), x));
    const closer = f32x4.lt(error, best);
    best = v128.bitselect(error, best, closer);
    index = v128.bitselect(i32x4.splat(i), index, closer);
  }
  return index;
}

@inline
export function nearest16(x: usize, d: v128): v128 {
  return low_bytes(nearest4(v128.load(x), d), nearest4(v128.load(x, 16), d), nearest4(v128.load(x, 32), d), nearest4(v128.load(x, 48), d));
}

export function quantize_row_mxfp4(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    let amax: f32 = 0;
    for (let i: usize = 0; i < 128; i += 4) {
      const v = abs(load<f32>(x + i));
      if (amax < v) amax = v;
    }
    let e: u32 = 0; // also for an infinite amax, since x86 converts its exponent to a 0 byte
    if (amax > 0 && reinterpret<u32>(amax) < 0x7f800000) e = <u32>(floor_log2f(amax) + 125) & 255;
    const d = f32x4.splat(e8m0_to_f32_half(e));
    store<u8>(y, <u8>e);
    v128.store(y, v128.or(nearest16(x, d), i8x16.shl(nearest16(x + 64, d), 4)), 1);
  }
}
