/**
 * gemv_16x1.ts for codes that are entries of a grid (format/grid.ts): one column of activations
 * times 16 packed rows, two rows at a time. One function serves all of these formats, because one
 * for each was 10 KB more of every build.
 *
 * A super-block of all rows is opened first, which computes addresses, signs and scales for 16
 * weights at a time. Then each vector of eight codes of both rows is two loads (four in iq3_*) from
 * the grid, which lies in L1. Signs are applied to the activations (x ^ m - m), so codes stay
 * unsigned. i16 has room for the products of 16 weights (4 * 62 * 127); one product with their
 * scale widens them to i32. A pair's sums, two i32 lanes for each row, stay in a register. Deltas
 * of iq1_*, times the sums of eight activations, are subtracted from the sums.
 */
import { ACT_D, ACT_SUB } from './act';
import { PAIR_SUMS, QUANT_BYTES } from './dot';
import { add_block } from './epilogue';
import { Codes8, OPENED, OPENED_ENTRIES, OPENED_SCALES, both_rows, codes, negated, next_step, signed_codes, steps } from './format/grid';
import { G0, G1, G2, G3, load_scales, store_sums } from './format/group';
import { open_grid } from './open_grid';
import { HAS_DOT_ADD, HAS_RELAXED_DOT, lookup16, splat_ones } from '../simd';
import { type_size } from '../type/ids';

/** Bytes of a super-block's step sums: the sums of each 8 activations. */
const STEP_SUMS: usize = 32 * 2;
/** Bytes of scratch: opened pairs, their integer sums, step sums. */
export const SCRATCH_GRID: usize = 8 * OPENED + 8 * 16 + STEP_SUMS;

/** Bytes of 8 quants. */
const STEP: usize = 8 * QUANT_BYTES;

/**
 * Shuffles for lookup16: scales of both rows to four i16 each, or in dotadd builds to two i32 each.
 */
const SCALES_I16 = memory.data<u8>([0, 128, 0, 128, 0, 128, 0, 128, 1, 128, 1, 128, 1, 128, 1, 128], 16);
const SCALES_I32 = memory.data<u8>([0, 128, 128, 128, 0, 128, 128, 128, 1, 128, 128, 128, 1, 128, 128, 128], 16);

/**
 * Shuffle for lookup16: a half's deltas, which alternate between the rows, to two i16 for each row.
 */
const DELTAS = memory.data<u8>([0, 128, 2, 128, 128, 128, 128, 128, 1, 128, 3, 128, 128, 128, 128, 128], 16);

/** y[0..15] = 16 packed rows of a type at w . the column of activations at a; n super-blocks. */
export function gemv_16x1_grid(
  type: u32,
  w: usize,
  n: i32,
  a: usize,
  y: usize,
  scratch: usize,
  factor: f32,
  fours: bool,
  has_signs: bool,
): void {
  const bytes = <usize>type_size(type) << 4;
  const sums = scratch + 8 * OPENED;
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  for (; n > 0; n--) {
    open_grid(type, w, scratch);
    if (HAS_RELAXED_DOT && !has_signs) store_step_sums(a, sums + 8 * 16);
    for (let o = scratch, p = sums; o != sums; o += OPENED, p += 16) v128.store(p, pair(o, a, sums + 8 * 16, fours, has_signs));
    const da = v128.load32_splat(a, ACT_D);
    const e = f32x4.splat(factor);
    y0 = add_block<Codes8>(y0, group_sums<G0>(sums), f32x4.mul(load_scales<G0>(w), e), da);
    y1 = add_block<Codes8>(y1, group_sums<G1>(sums), f32x4.mul(load_scales<G1>(w), e), da);
    y2 = add_block<Codes8>(y2, group_sums<G2>(sums), f32x4.mul(load_scales<G2>(w), e), da);
    y3 = add_block<Codes8>(y3, group_sums<G3>(sums), f32x4.mul(load_scales<G3>(w), e), da);
    a += 8 * ACT_SUB;
    w += bytes;
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Sums of group G's rows, from the sums of its two pairs. */
@inline
function group_sums<G>(sums: usize): v128 {
  const v = v128.load(sums, 2 * offsetof<G>());
  const z = v128.load(sums, 2 * offsetof<G>() + 16);
  return i32x4.add(i32x4.shuffle(v, z, 0, 2, 4, 6), i32x4.shuffle(v, z, 1, 3, 5, 7));
}

/**
 * Integer sums of the opened pair at o times a super-block of activations: two lanes for each row.
 * step_sums: the result of store_step_sums, for formats with deltas.
 */
@inline
function pair(o: usize, a: usize, step_sums: usize, fours: bool, has_signs: bool): v128 {
  const rows = both_rows();
  const scales = v128.load(HAS_DOT_ADD ? SCALES_I32 : SCALES_I16);
  let i = i32x4.splat(0);
  let z = i; // second row, in the simd build
  let e = o + OPENED_ENTRIES;
  let sc = o + OPENED_SCALES;
  for (const end = a + 8 * ACT_SUB; a != end; a += ACT_SUB) {
    const s0 = steps(has_signs, o);
    const s1 = next_step(has_signs, s0);
    const s2 = next_step(has_signs, s1);
    const s3 = next_step(has_signs, s2);
    if (HAS_RELAXED_DOT) {
      const x0 = quants(has_signs, a, s0);
      const x1 = quants(has_signs, a + STEP, s1);
      const x2 = quants(has_signs, a + 2 * STEP, s2);
      const x3 = quants(has_signs, a + 3 * STEP, s3);
      let h0 = half(x0, codes(fours, e, 0), x1, codes(fours, e, 1));
      let h1 = half(x2, codes(fours, e, 2), x3, codes(fours, e, 3));
      if (!has_signs) {
        h0 = less_deltas(h0, v128.load32_splat(step_sums), v128.load32_splat(o));
        h1 = less_deltas(h1, v128.load32_splat(step_sums, 4), v128.load32_splat(o, 4));
        step_sums += 8;
      }
      i = add_half(i, h0, lookup16(v128.load16_splat(sc), scales));
      i = add_half(i, h1, lookup16(v128.load16_splat(sc, 2), scales));
    } else {
      const c0 = signed_codes(fours, has_signs, e, 0, s0, rows);
      const c1 = signed_codes(fours, has_signs, e, 1, s1, rows);
      const c2 = signed_codes(fours, has_signs, e, 2, s2, rows);
      const c3 = signed_codes(fours, has_signs, e, 3, s3, rows);
      i = add_row<G0>(add_row<G0>(i, a, c0, c1, sc), a + 2 * STEP, c2, c3, sc + 2);
      z = add_row<G1>(add_row<G1>(z, a, c0, c1, sc + 1), a + 2 * STEP, c2, c3, sc + 3);
    }
    o += 16;
    sc += 4;
    e += fours ? 32 : 16;
  }
  if (HAS_RELAXED_DOT) return i;
  return i32x4.add(i32x4.shuffle(i, z, 0, 1, 4, 5), i32x4.shuffle(i, z, 2, 3, 6, 7));
}

/**
 * Adds a half's products of the first (G0) or second row to i: i16 activations at a, codes c and e
 * of two steps, times the row's scale at sc.
 */
@inline
function add_row<G>(i: v128, a: usize, c: v128, e: v128, sc: usize): v128 {
  const d = i16x8.splat(load<u8>(sc));
  const u = offsetof<G>() == 0 ? i16x8.extend_low_i8x16_s(c) : i16x8.extend_high_i8x16_s(c);
  const v = offsetof<G>() == 0 ? i16x8.extend_low_i8x16_s(e) : i16x8.extend_high_i8x16_s(e);
  i = i32x4.add(i, i32x4.dot_i16x8_s(v128.load(a), i16x8.mul(u, d)));
  return i32x4.add(i, i32x4.dot_i16x8_s(v128.load(a, STEP), i16x8.mul(v, d)));
}

/** Stores the sums of each 8 activations of a super-block as i16 at p. */
@inline
function store_step_sums(a: usize, p: usize): void {
  const ones = splat_ones();
  for (const end = p + STEP_SUMS; p != end; p += 8, a += ACT_SUB) {
    const x = i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(v128.load(a)));
    const z = i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(v128.load(a, 2 * STEP)));
    const v = i32x4.dot_i16x8_s(i16x8.narrow_i32x4_s(x, z), ones);
    v128.store64_lane(p, i16x8.narrow_i32x4_s(v, v), 0);
  }
}

/**
 * Takes the deltas off a half's sums: s - delta * step sum. Deltas are in every lane; step_sums has
 * the sums of activations of the half's two steps.
 */
@inline
function less_deltas(s: v128, step_sums: v128, deltas: v128): v128 {
  const v = lookup16(deltas, v128.load(DELTAS));
  return PAIR_SUMS ? i16x8.sub(s, i16x8.mul(step_sums, v)) : i32x4.sub(s, i32x4.dot_i16x8_s(step_sums, v));
}

/** Eight activations for both rows, with the signs of the codes applied. */
@inline
function quants(has_signs: bool, a: usize, s: v128): v128 {
  const x = v128.load64_splat(a);
  return has_signs ? negated(x, s) : x;
}

/** Sums of a half: its two steps, x . u + z . v. */
@inline
function half(x: v128, u: v128, z: v128, v: v128): v128 {
  if (HAS_DOT_ADD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(z, v, i32x4.relaxed_dot_i8x16_i7x16_add_s(x, u, i32x4.splat(0)));
  return i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(x, u), i16x8.relaxed_dot_i8x16_i7x16_s(z, v));
}

/** Adds a half's sums, times their scales, to i. */
@inline
function add_half(i: v128, s: v128, scale: v128): v128 {
  return i32x4.add(i, PAIR_SUMS ? i32x4.dot_i16x8_s(s, scale) : i32x4.mul(s, scale));
}
