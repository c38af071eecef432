/**
 * q5_0: 32 elements in 22 bytes, x = d * (q - 16).
 *
 *   0        2                           6                                            22
 *   | d: f16 | qh: u32, bit j of q >> 4  | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { dot2_u6_offset, f16_to_f32, f32_to_f16, hsum_f32, lookup16, madd, splat_u6 } from '../../simd';
import { block32_signed_max } from './q4_0';
import { make_qx_quants, sum_squares, weigh } from './search_qx';
import { L, WEIGHT } from './work';
import { codes16, store_i8_scaled } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 22;

// prettier-ignore
const QH = memory.data<u8>([
  0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, // byte of qh with the bit of elements 0..15 (2 more for 16..31)
  1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128, // mask of the bit in that byte
], 16);

/** Arguments of codes5. They are loaded from memory, so that loops keep them in registers. */
@inline
export function qh_bytes(): v128 {
  return v128.load(QH);
}

@inline
export function qh_bits(): v128 {
  return v128.load(QH, 16);
}

/**
 * Codes 0..31 from sixteen nibbles and the fifth bits, which `bytes` and `bits` select from qh (in
 * all i32 lanes). top: 16.
 */
@inline
export function codes5(nibbles: v128, qh: v128, bytes: v128, bits: v128, top: v128): v128 {
  return v128.or(nibbles, v128.and(i8x16.eq(v128.and(lookup16(qh, bytes), bits), bits), top));
}

/** Stores qh and qs at y from sixteen and sixteen codes. Bits above the fifth are dropped. */
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
  const low = splat_u6(15);
  const top = splat_u6(16);
  const bits = qh_bits();
  const bytes0 = qh_bytes();
  const bytes1 = i8x16.add(bytes0, splat_u6(2));
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const qh = v128.load32_splat(x, 2);
    const q = v128.load(x, 6);
    store_i8_scaled(y, i8x16.sub(codes5(v128.and(q, low), qh, bytes0, bits, top), top), d);
    store_i8_scaled(y + 64, i8x16.sub(codes5(v128.and(i16x8.shr_u(q, 4), low), qh, bytes1, bits, top), top), d);
  }
}

export function quantize_row_q5_0(x: usize, y: usize, k: i32): void {
  const zero = f32x4.splat(0);
  const most = i8x16.splat(31);
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    const d = block32_signed_max(x) / -16;
    const id = f32x4.splat(d != 0 ? 1 / d : 0);
    store<u16>(y, <u16>f32_to_f16(d));
    store_codes5(y + 2, i8x16.min_s(most, codes16(x, zero, id, 16.5)), i8x16.min_s(most, codes16(x + 64, zero, id, 16.5)));
  }
}

/** Quantises one row with importance weights, as ggml's quantize_q5_0 with an imatrix. */
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
  const low = splat_u6(15);
  const top = splat_u6(16);
  const bits = qh_bits();
  const bytes0 = qh_bytes();
  const bytes1 = i8x16.add(bytes0, splat_u6(2));
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 34) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    const qh = v128.load32_splat(x, 2);
    const q = v128.load(x, 6);
    const s = dot2_u6_offset(
      codes5(v128.and(q, low), qh, bytes0, bits, top),
      v128.load(y, 2),
      codes5(v128.and(i16x8.shr_u(q, 4), low), qh, bytes1, bits, top),
      v128.load(y, 18),
      top,
    );
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
