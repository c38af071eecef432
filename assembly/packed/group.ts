/**
 * Packed weights: 16 rows side by side (four groups of 4 rows), block after block along k: one sequential stream for a GEMV.
 * 16, because from memory 4 groups stream 2-3 GMAC/s faster than 1 (24-25 against 22, measured on Zen 3), because headers of 16 rows
 * fill one vector of bytes, and because two pairs of adjacent groups are what V8's revectoriser joins into 256-bit code.
 */
import { lanes } from '../dot';

/** Rows of a packed group. */
export const ROWS: i32 = 16;
/** Bytes of a column's f32 sums of a group's rows: from one column's to the next. */
export const ACC: usize = 64;

/** The f32 sums of a group's rows, four of each. */
// @ts-ignore: decorator
@inline
export function store_sums(y: usize, y0: v128, y1: v128, y2: v128, y3: v128): void {
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}

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
  0x30303030, 0x30303030, 0x30303030, 0x30303030,
  0x10101010, 0x10101010, 0x10101010, 0x10101010,
  0x03030303, 0x03030303, 0x03030303, 0x03030303,
], 16);

// @ts-ignore: decorator
@inline
export function low_nibbles(): v128 { return v128.load(CONSTANTS); }

// @ts-ignore: decorator
@inline
export function bits_0x30(): v128 { return v128.load(CONSTANTS, 48); }

// @ts-ignore: decorator
@inline
export function bits_0x10(): v128 { return v128.load(CONSTANTS, 64); }

// @ts-ignore: decorator
@inline
export function bits_0x03(): v128 { return v128.load(CONSTANTS, 80); }

/** Four sign-extended f16 -> f32x4 in three operations. Finite values only (repack counts others): Inf and NaN come out as large numbers. */
// @ts-ignore: decorator
@inline
export function f16x4_finite(h: v128): v128 {
  return f32x4.mul(v128.and(i32x4.shl(h, 13), v128.load(CONSTANTS, 16)), v128.load(CONSTANTS, 32));
}

/** The f16 scales of group G's rows at p. */
// @ts-ignore: decorator
@inline
export function load_scales<G>(p: usize): v128 {
  return f16x4_finite(v128.load16x4_s(p, offsetof<G>() >> 1));
}

/** Rows 4g .. 4g + 3 of sixteen unsigned bytes, as i32. */
// @ts-ignore: decorator
@inline
export function group_u8<G>(v: v128): v128 {
  const half = offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_u(v) : i16x8.extend_low_i8x16_u(v);
  return (offsetof<G>() & 16) != 0 ? i32x4.extend_high_i16x8_u(half) : i32x4.extend_low_i16x8_u(half);
}

/** Four rows' 16 bytes, word t of each to q + 64 t: how a group's codes lie among those of the others. */
// @ts-ignore: decorator
@inline
export function store_quads(q: usize, r0: v128, r1: v128, r2: v128, r3: v128, step: usize): void {
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5), b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  const c = i32x4.shuffle(r0, r1, 2, 6, 3, 7), d = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
  v128.store(q, lanes(i64x2.shuffle(a, b, 0, 2)));
  v128.store(q + step, lanes(i64x2.shuffle(a, b, 1, 3)));
  v128.store(q + step * 2, lanes(i64x2.shuffle(c, d, 0, 2)));
  v128.store(q + step * 3, lanes(i64x2.shuffle(c, d, 1, 3)));
}

/** The f16 at `src` of 16 rows to w. */
export function pack_f16(src: usize, stride: usize, w: usize): void {
  for (let r: usize = 0; r < 16; r++) store<u16>(w + (r << 1), load<u16>(src + r * stride));
}

/** 16 bytes of nibbles at `src` of 16 rows, low k = i, high k = 16 + i, to the quads at q. */
export function pack_nibbles(src: usize, stride: usize, q: usize): void {
  for (let g: usize = 0; g < 4; g++) {
    store_quads(q + (g << 4), v128.load(src), v128.load(src + stride), v128.load(src + stride * 2), v128.load(src + stride * 3), 64);
    src += stride << 2;
  }
}

/** Four rows' 16 bytes of four bits each, as quads 0, 1 in one byte at h and quads 2, 3 at h + 64. */
// @ts-ignore: decorator
@inline
export function store_pairs(h: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5), b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  const c = i32x4.shuffle(r0, r1, 2, 6, 3, 7), d = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
  v128.store(h, lanes(v128.or(i64x2.shuffle(a, b, 0, 2), i16x8.shl(i64x2.shuffle(a, b, 1, 3), 4))));
  v128.store(h, lanes(v128.or(i64x2.shuffle(c, d, 0, 2), i16x8.shl(i64x2.shuffle(c, d, 1, 3), 4))), 64);
}

/** The n bytes at `src` of 16 rows to n vectors at w: byte i of every row to vector i. */
export function pack_bytes(src: usize, stride: usize, n: usize, w: usize): void {
  for (let r: usize = 0; r < 16; r++) {
    for (let i: usize = 0; i < n; i++) store<u8>(w + (i << 4) + r, load<u8>(src + r * stride + i));
  }
}

/** Two vectors of 0 and 1 (k 0..15 and 16..31 of a row) to four bytes, one for each k % 4: bit k / 4. */
// @ts-ignore: decorator
@inline
function gather(a: v128, b: v128): v128 {
  // A weight's bit: t of its quad for the low part, 4 + t for the high part.
  const x = i32x4.mul(a, i32x4(1, 2, 4, 8)), y = i32x4.mul(b, i32x4(16, 32, 64, 128));
  const z = v128.or(x, y), h = v128.or(z, i64x2.shuffle(z, z, 1, 0));
  return v128.or(h, i32x4.shuffle(h, h, 1, 0, 3, 2));
}

/** Bit `bit` of 32 bytes at `src` of four rows to the vector at h. */
// @ts-ignore: decorator
@inline
export function store_bits(h: usize, src: usize, stride: usize, bit: i32): void {
  const one = i8x16.splat(1);
  for (let r: usize = 0; r < 4; r++) {
    const p = src + r * stride;
    const v = gather(v128.and(i16x8.shr_u(v128.load(p), bit), one), v128.and(i16x8.shr_u(v128.load(p, 16), bit), one));
    store<i32>(h + (r << 2), i32x4.extract_lane(v, 0));
  }
  v128.store(h, lanes(v128.load(h)));
}

/** 32 bits at `src` of 16 rows, bit k for weight k, to the four groups' vectors at h. */
export function pack_bits(src: usize, stride: usize, h: usize): void {
  const selected = i64x2.splat(0x8040201008040201), one = i8x16.splat(1);
  for (let r: usize = 0; r < 16; r++) {
    const v = v128.load32_zero(src + r * stride);
    const a = v128.and(i8x16.eq(v128.and(i8x16.shuffle(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), selected), selected), one);
    const b = v128.and(i8x16.eq(v128.and(i8x16.shuffle(v, v, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3), selected), selected), one);
    store<i32>(h + (r << 2), i32x4.extract_lane(gather(a, b), 0));
  }
  for (let g: usize = 0; g < 4; g++) v128.store(h + (g << 4), lanes(v128.load(h + (g << 4))));
}
