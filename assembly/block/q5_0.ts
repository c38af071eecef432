/**
 * q5_0: 32 elements in 22 bytes, x = d * (q - 16).
 *
 *   0        2                           6                                            22
 *   | d: f16 | qh: u32, bit j of q >> 4  | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { dot2_u6_offset, f16_to_f32, f32_to_f16, hsum_f32, low_bytes, madd, spread_bits, store_i8_scaled, trunc_i32x4 } from '../simd';
import { block32_signed_max } from './q4_0';
import { make_qx_quants, sum_squares, weigh } from './search_qx';
import { L, WEIGHT } from './work';

// @ts-ignore: decorator
@inline
const QK: i32 = 32;
// @ts-ignore: decorator
@inline
const BYTES: usize = 22;

/** Codes 0..31 of elements 0..15, from the 16 bytes of nibbles and qh. */
// @ts-ignore: decorator
@inline
export function codes5_low(q: v128, qh: u32): v128 {
  return v128.or(v128.and(q, i8x16.splat(15)), v128.and(spread_bits(qh), i8x16.splat(16)));
}

/** Codes of elements 16..31. */
// @ts-ignore: decorator
@inline
export function codes5_high(q: v128, qh: u32): v128 {
  return v128.or(v128.and(i16x8.shr_u(q, 4), i8x16.splat(15)), v128.and(spread_bits(qh >> 16), i8x16.splat(16)));
}

/** Stores qh and qs at y from sixteen and sixteen codes (bits above the fifth are dropped). */
// @ts-ignore: decorator
@inline
export function store_codes5(y: usize, q0: v128, q1: v128): void {
  const nibble = i8x16.splat(15);
  const top = i8x16.splat(16);
  const zero = i8x16.splat(0);
  const h0 = i8x16.bitmask(i8x16.ne(v128.and(q0, top), zero));
  const h1 = i8x16.bitmask(i8x16.ne(v128.and(q1, top), zero));
  store<u32>(y, h0 | (h1 << 16));
  v128.store(y, v128.or(v128.and(q0, nibble), i8x16.shl(v128.and(q1, nibble), 4)), 4);
}

export function dequantize_row_q5_0(x: usize, y: usize, k: i32): void {
  const offset = i8x16.splat(16);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const qh = load<u32>(x, 2);
    const q = v128.load(x, 6);
    store_i8_scaled(y, i8x16.sub(codes5_low(q, qh), offset), d);
    store_i8_scaled(y + 64, i8x16.sub(codes5_high(q, qh), offset), d);
  }
}

// @ts-ignore: decorator
@inline
function quant4(x: usize, id: v128): v128 {
  return trunc_i32x4(f32x4.add(f32x4.mul(v128.load(x), id), f32x4.splat(16.5)));
}

/** min(31, (i8)(x * id + 16.5)) of sixteen f32. */
// @ts-ignore: decorator
@inline
function quant16(x: usize, id: v128): v128 {
  return i8x16.min_s(i8x16.splat(31), low_bytes(quant4(x, id), quant4(x + 16, id), quant4(x + 32, id), quant4(x + 48, id)));
}

export function quantize_row_q5_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const d = block32_signed_max(x) / -16;
    const id = f32x4.splat(d != 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    store_codes5(y + 2, quant16(x, id), quant16(x + 64, id));
  }
}

/** One row with importance weights, as quantize_q5_0 of ggml with an imatrix. */
export function quantize_imatrix_q5_0(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  const sigma2 = sum_squares(x, k) / <f32>k;
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES, imatrix += 128) {
    weigh(work + WEIGHT, x, imatrix, sigma2, 32);
    const d = make_qx_quants(32, 16, x, work + L, work + WEIGHT, work);
    store<u16>(y, <u16>f32_to_f16(d));
    store_codes5(y + 2, v128.load(work + L), v128.load(work + L, 16));
  }
}

export function vec_dot_q5_0_q8_0(n: i32, x: usize, y: usize): f32 {
  const offset = i8x16.splat(16);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 34) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    const qh = load<u32>(x, 2);
    const q = v128.load(x, 6);
    const s = dot2_u6_offset(codes5_low(q, qh), v128.load(y, 2), codes5_high(q, qh), v128.load(y, 18), offset);
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
