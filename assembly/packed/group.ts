/**
 * Packed weights: 16 rows side by side (four groups of 4 rows), block after block along k: one sequential stream for a GEMV.
 * 16, because from memory 4 groups stream 2-3 GMAC/s faster than 1 (24-25 against 22, measured on Zen 3), because headers of 16 rows
 * fill one vector of bytes, and because two pairs of adjacent groups are what V8's revectoriser joins into 256-bit code.
 */
export const ROWS: i32 = 16;

/** The groups as types: offsetof<G>() is 16 * g, a constant that may stand in a load's immediate offset. */
@unmanaged
export class G0 {}

@unmanaged
export class G1 {
  a: u64; b: u64;
}

@unmanaged
export class G2 {
  a: u64; b: u64; c: u64; d: u64;
}

@unmanaged
export class G3 {
  a: u64; b: u64; c: u64; d: u64; e: u64; f: u64;
}

/** Kept in memory because V8 builds a v128 constant anew at every use, in three instructions. */
// @ts-ignore: decorator
@lazy
const CONSTANTS: usize = memory.data<u32>([
  0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f,
  0x8fffe000, 0x8fffe000, 0x8fffe000, 0x8fffe000,
  0x77800000, 0x77800000, 0x77800000, 0x77800000,
], 16);

// @ts-ignore: decorator
@inline
export function low_nibbles(): v128 { return v128.load(CONSTANTS); }

/** Four f16 at p -> f32x4 in four operations. Finite values only (repack reports others): Inf and NaN come out as large numbers. */
// @ts-ignore: decorator
@inline
export function load_scales<G>(p: usize): v128 {
  const bits = i32x4.shl(v128.load16x4_s(p, offsetof<G>() >> 1), 13);
  return f32x4.mul(v128.and(bits, v128.load(CONSTANTS, 16)), v128.load(CONSTANTS, 32));
}

/** Rows 4g .. 4g + 3 of sixteen unsigned bytes, as i32. */
// @ts-ignore: decorator
@inline
export function group_u8<G>(v: v128): v128 {
  const half = offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_u(v) : i16x8.extend_low_i8x16_u(v);
  return offsetof<G>() & 16 ? i32x4.extend_high_i16x8_s(half) : i32x4.extend_low_i16x8_s(half);
}

/** The same of signed bytes. */
// @ts-ignore: decorator
@inline
export function group_i8<G>(v: v128): v128 {
  const half = offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_s(v) : i16x8.extend_low_i8x16_s(v);
  return offsetof<G>() & 16 ? i32x4.extend_high_i16x8_s(half) : i32x4.extend_low_i16x8_s(half);
}

/** 4 rows x 4 u32 -> one vector per u32 index: word `t` of rows 4g .. 4g + 3, from rows `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function words(p: usize, stride: usize, t: usize): v128 {
  const q = p + (t << 2);
  let v = v128.load32_zero(q);
  v = v128.load32_lane(q + stride, v, 1);
  v = v128.load32_lane(q + stride * 2, v, 2);
  return v128.load32_lane(q + stride * 3, v, 3);
}
