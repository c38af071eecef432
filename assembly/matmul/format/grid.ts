/**
 * Code shared by formats whose codes are entries of a grid (iq2_*, iq3_*, iq1_*). An index stands
 * for eight weights, in iq3_* for four.
 *
 *   weight = d * factor * (2 * scale + 1) * code
 *
 *   code: a value of the entry with a sign; in iq1_*, a value of the entry - 9 or - 7 (the delta)
 *
 * A loop takes two rows at a time (a pair): a vector holds eight codes of each, which are one load
 * of 8 bytes for each row (two of 4 in iq3_*). So a packed block is
 *
 *   | d of rows 0..15, f16 (32) | 8 pairs: rows 0 and 1, 2 and 3 ... |
 *
 * F.open computes addresses, signs and scales of a super-block, 16 or more weights in one
 * operation, and writes them to scratch, where loops read them (gemv_16x1_grid.ts, panel_grid.ts).
 * The layout of a pair serves that. A step is eight consecutive k of both rows; a sub-block has
 * four.
 *
 *   pair:  | low 8 bits of indices (64, iq3_*: 128) | their other bits, signs, scales |
 *   index: 2t for the first row of step t, 2t + 1 for the second; in iq3_* two for each row
 *
 * The format's own file has the layout of other bits, signs and scales, and reads a plain row
 * (entry, scale). pack_grid.ts packs with these. An opened pair has OPENED bytes, its sub-blocks in
 * order:
 *
 *   | 8 x 16: sign bits, or deltas | 8 x 2 halves x 2 rows: scales, u8 |
 *   | 8 x 4 steps: addresses of entries, u16 |
 *
 * Sign bits of a step are the top bits of 16 bytes, eight k of both rows. The next step's are one
 * bit lower. Deltas are a byte for each row and step.
 */
import { HAS_RELAXED_DOT, lookup16, splat_u6 } from '../../simd';

/** Offset of the pairs in a packed block, which begins with d. */
export const PAIRS: usize = 32;
/** Offsets of the scales and addresses in an opened pair, and its size. */
export const OPENED_SCALES: usize = 128;
export const OPENED_ENTRIES: usize = 160;
export const OPENED: usize = OPENED_ENTRIES + 256;

// ---- Opening: conversion of packed pairs to opened pairs ----

/** Interleaves lanes 0..7 of a with those of b; zip_high interleaves lanes 8..15. */
@inline
function zip_low(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

@inline
function zip_high(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/**
 * Stores the addresses of entries 16v .. 16v + 15 of a pair. low, high: bytes of their indices;
 * size: log2 of an entry's bytes. (Grids end below 64 KiB.)
 */
@inline
function store_addresses(o: usize, v: usize, low: v128, high: v128, grid: v128, size: i32): void {
  v128.store(o + (v << 5), i16x8.add(grid, i16x8.shl(zip_low(low, high), size)), OPENED_ENTRIES);
  v128.store(o + (v << 5), i16x8.add(grid, i16x8.shl(zip_high(low, high), size)), OPENED_ENTRIES + 16);
}

// The functions below convert the 8 pairs of a block: p points into the first one, pairs are `pair`
// bytes apart, and the opened pairs lie at o.

/**
 * Opens addresses in a grid of eights. Bits 8 and up of the indices lie in `planes` planes at
 * `high`.
 */
export function open_eights(p: usize, o: usize, pair: usize, grid: usize, planes: i32, high: usize): void {
  const base = i16x8.splat(<i16>grid);
  const one = splat_u6(1);
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    const a = plane(p + high);
    const b = plane(p + high + 8);
    const c = plane(p + high + 16);
    for (let v: usize = 0; v < 4; v++) {
      let bits = i32x4.splat(0);
      if (planes > 0) bits = v128.and(i16x8.shr_u(a, <i32>v << 1), one);
      if (planes > 1) bits = v128.or(bits, i16x8.shl(v128.and(i16x8.shr_u(b, <i32>v << 1), one), 1));
      if (planes > 2) bits = v128.or(bits, i16x8.shl(v128.and(i16x8.shr_u(c, <i32>v << 1), one), 2));
      store_addresses(o, v, v128.load(p + (v << 4)), bits, base, 3);
    }
  }
}

/**
 * Opens addresses in a grid of fours. The ninth bits of the indices lie in a plane at `high`, or
 * are zero if `high` is 0.
 */
export function open_fours(p: usize, o: usize, pair: usize, grid: usize, high: usize): void {
  const base = i16x8.splat(<i16>grid);
  const mask = high != 0 ? splat_u6(1) : i32x4.splat(0);
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    let ninth = v128.load(p + high);
    for (let v: usize = 0; v < 8; v++) {
      store_addresses(o, v, v128.load(p + (v << 4)), v128.and(ninth, mask), base, 2);
      ninth = i16x8.shr_u(ninth, 1);
    }
  }
}

/** Stores the sign bits of 8 steps; v: which of the four runs of 8 steps. */
@inline
function store_signs(o: usize, v: usize, signs: v128): void {
  v128.store(o + (v << 5), signs);
  v128.store(o + (v << 5), i16x8.shl(signs, 4), 16);
}

/** Opens sign bits, 16 bytes for 8 steps. */
export function open_signs(p: usize, o: usize, pair: usize): void {
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    for (let v: usize = 0; v < 4; v++) store_signs(o, v, v128.load(p + (v << 4)));
  }
}

/** Shuffle that leaves bytes 0..6 in place and moves bytes 7..13 up by one. */
const SEVEN = memory.data<u8>([0, 1, 2, 3, 4, 5, 6, 128, 7, 8, 9, 10, 11, 12, 13, 128], 16);

/**
 * Opens sign bits stored as seven bytes for each row. The eighth bit makes the number of minus
 * signs even. (Reads two bytes past the end.)
 */
export function open_seven_signs(p: usize, o: usize, pair: usize): void {
  const seven = v128.load(SEVEN);
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    for (let v: usize = 0; v < 4; v++) {
      const s = lookup16(v128.load(p + 14 * v), seven);
      let x = v128.xor(s, i64x2.shr_u(s, 32));
      x = v128.xor(x, i64x2.shr_u(x, 16));
      store_signs(o, v, v128.or(s, i64x2.shl(v128.xor(x, i64x2.shr_u(x, 8)), 56)));
    }
  }
}

/** Stores the scales of 16 halves of both rows, as 2 * scale + 1. */
@inline
export function store_half_scales(o: usize, a: v128, b: v128): void {
  const one = splat_u6(1);
  a = v128.or(i8x16.add(a, a), one);
  b = v128.or(i8x16.add(b, b), one);
  v128.store(o, zip_low(a, b), OPENED_SCALES);
  v128.store(o, zip_high(a, b), OPENED_SCALES + 16);
}

/**
 * Opens scales of halves stored as nibbles of 16 bytes: low ones of the first row, high ones of the
 * second.
 */
export function open_half_scales(p: usize, o: usize, pair: usize): void {
  const m = splat_u6(15);
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    const v = v128.load(p);
    store_half_scales(o, v128.and(v, m), v128.and(i16x8.shr_u(v, 4), m));
  }
}

/**
 * Opens scales of sub-blocks stored as nibbles of 8 bytes: the low one of the first row, the high
 * one of the second. With deltas, the top bit of a nibble gives the delta of the sub-block's steps.
 */
export function open_sub_scales(p: usize, o: usize, pair: usize, deltas: bool): void {
  const m = deltas ? splat_u6(7) : splat_u6(15);
  const one = splat_u6(1);
  for (const end = p + 8 * pair; p != end; p += pair, o += OPENED) {
    const v = v128.load64_zero(p);
    // Byte 2s + r belongs to sub-block s and row r.
    const z = zip_low(v, i16x8.shr_u(v, 4));
    const sc = v128.and(z, m);
    const d = v128.or(i8x16.add(sc, sc), one);
    v128.store(o, i16x8.shuffle(d, d, 0, 0, 1, 1, 2, 2, 3, 3), OPENED_SCALES);
    v128.store(o, i16x8.shuffle(d, d, 4, 4, 5, 5, 6, 6, 7, 7), OPENED_SCALES + 16);
    if (!deltas) continue;
    // The bits are parked in the upper 8 of 16 bytes, since a sub-block's deltas only use the lower
    // 8.
    v128.store64_lane(o + 8, v128.and(i16x8.shr_u(z, 3), one), 0);
    v128.store64_lane(o + 24, v128.and(i16x8.shr_u(z, 3), one), 1);
    for (let sub: usize = 0; sub < 8; sub++) store_deltas(o, sub, v128.load16_splat(o + ((sub & 3) << 1) + ((sub & 4) << 2), 8));
  }
}

/** Stores the deltas of four steps of both rows, from bytes of 0 (delta 9) or 1 (delta 7). */
@inline
export function store_deltas(o: usize, sub: usize, v: v128): void {
  v128.store64_lane(o + (sub << 4), i8x16.sub(i8x16.splat(9), i8x16.add(v, v)), 0);
}

/**
 * Loads a plane: one bit for each of 64 indices, bit b of byte i for index 8b + i. In the result,
 * bit 2v of byte i is for index 16v + i.
 */
@inline
function plane(p: usize): v128 {
  const v = v128.load64_splat(p);
  return i64x2.shuffle(v, i16x8.shr_u(v, 1), 0, 3);
}

// ---- Functions of the loops, on opened pairs ----

/**
 * Shuffle for lookup16: byte 0 to the eight bytes of the first row, byte 1 to those of the second.
 */
const ROWS = memory.data<u8>([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], 16);

@inline
export function both_rows(): v128 {
  return v128.load(ROWS);
}

/** Sign bits or deltas of an opened sub-block, positioned at its first step. */
@inline
export function steps(has_signs: bool, o: usize): v128 {
  return has_signs ? v128.load(o) : v128.load64_splat(o);
}

/** Sign bits or deltas positioned at the next step. */
@inline
export function next_step(has_signs: bool, s: v128): v128 {
  return has_signs ? i8x16.add(s, s) : i64x2.shr_u(s, 16);
}

/** x, negated where sign bits are set. */
@inline
export function negated(x: v128, s: v128): v128 {
  const m = i8x16.lt_s(s, i32x4.splat(0));
  return i8x16.sub(v128.xor(x, m), m);
}

/**
 * Unsigned codes of step t (0..3) of the sub-block whose addresses are at e, before signs and
 * deltas.
 */
@inline
export function codes(fours: bool, e: usize, t: usize): v128 {
  if (fours) {
    e += t << 3;
    const v = v128.load32_lane(load<u16>(e, 2), v128.load32_zero(load<u16>(e)), 1);
    return v128.load32_lane(load<u16>(e, 6), v128.load32_lane(load<u16>(e, 4), v, 2), 3);
  }
  e += t << 2;
  return v128.load64_lane(load<u16>(e, 2), v128.load64_zero(load<u16>(e)), 1);
}

/** Signed codes. */
@inline
export function signed_codes(fours: bool, has_signs: bool, e: usize, t: usize, s: v128, rows: v128): v128 {
  return signed(has_signs, codes(fours, e, t), s, rows);
}

/**
 * Unsigned codes v with their signs or deltas applied. s: `steps`, positioned at the step; rows:
 * both_rows().
 */
@inline
export function signed(has_signs: bool, v: v128, s: v128, rows: v128): v128 {
  return has_signs ? negated(v, s) : i8x16.sub(v, lookup16(s, rows));
}

// ---- Formats of codes in the GEMM's panel; no weights are packed in them ----

/** True if panels of grids and levels hold Codes8; else they hold Codes7. Static. */
export const GRID_I16: bool = !HAS_RELAXED_DOT;

/** Signed codes of 8 bits, as i16 times their scales (gemm_8x4_i16.ts). */
@unmanaged
export class Codes8 {
  super_block: bool;

  @inline width(): i32 {
    return 8;
  }
}

/**
 * Codes + 64 with a scale for every 16. gemm_8x4.ts takes them with i32 sums, gemm_8x4_grid.ts with
 * i16 sums.
 */
@unmanaged
export class Codes7 {
  super_block: bool;
  s16: bool;

  @inline width(): i32 {
    return 7;
  }
  @inline centre(): i32 {
    return 64;
  }
  @inline scale_bits(): i32 {
    return 5;
  }
}
