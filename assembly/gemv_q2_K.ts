/**
 * gemv.ts for q2_K where a dot leaves pairs of products apart, as i16 (DotI16): one activation row times 16 packed rows.
 *
 * Scales are for 16 weights, and codes so small that the products of 16 fit an i16 lane: a row's even lane sums the first half of a run, its
 * odd lane the second, and one product with both scales side by side makes the integer sum of the run. Codes are packed in that order
 * (packed/halves.ts), and activations are put into it once for all rows of a call:
 *
 *   run: | words 0..7: quants 2w, 2w + 1 of either half (32) | d f32 | negated sums of both halves 2 x i16 | (8) |
 *
 * What counts on x64 is operations of the vector unit: 148 for a run of 16 rows, where two sums of either half (gemv_w16.ts, other builds) take
 * 178 and q4_0 has 146: 34 against 29 GMAC/s, q4_0 40 (Zen 4, Node 24). The same f32 operations as gemv_w16.ts and gemm.ts, in the same order.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_QUANTS } from './act';
import { G0, G1, G2, G3, ROWS, store_sums } from './packed/group';
import { Q2_K } from './packed/q2_K';
import { held_ones, madd } from './simd';

const SUMS: usize = ACT_QUANTS + 4;
/** Super-blocks whose activations are put in order at a time: 48 KB. */
const MOST: i32 = 128;

/** y[row] for rows [row0, row1) at w of n super-blocks, one column of activations at a. kept: scratch has them in order. scratch: MOST * 8 * ACT_BLOCK bytes; spare: 64 more. */
export function column_q2_K(w: usize, n: i32, row0: i32, row1: i32, a: usize, y: usize, kept: bool, scratch: usize, spare: usize): void {
  const bytes = changetype<Q2_K>(0).bytes(), whole = row1 - (row1 - row0) % ROWS;
  for (let b = 0; b < n; b += MOST) {
    const blocks = min(MOST, n - b);
    if (!kept || n > MOST) put_in_order(a + <usize>(b << 3) * ACT_BLOCK, blocks << 3, scratch);
    for (let row = row0; row < row1; row += ROWS) {
      gemv_q2_K(w + (<usize>(row / ROWS) * n + b) * bytes, blocks, scratch, row < whole ? y + (<usize>row << 2) : spare, b > 0);
    }
  }
  if (whole < row1) memory.copy(y + (<usize>whole << 2), spare, <usize>(row1 - whole) << 2);
}

/** n runs of activations at a to p. */
function put_in_order(a: usize, n: i32, p: usize): void {
  const ones = held_ones();
  for (; n > 0; n--) {
    const first = v128.load(a), second = v128.load(a, 16), sums = i32x4.dot_i16x8_s(v128.load64_zero(a, ACT_PAIRS0), ones);
    v128.store(p, v128.shuffle<i16>(first, second, 0, 8, 1, 9, 2, 10, 3, 11));
    v128.store(p, v128.shuffle<i16>(first, second, 4, 12, 5, 13, 6, 14, 7, 15), 16);
    store<i32>(p, load<i32>(a, ACT_D), ACT_D);
    store<i32>(p, i32x4.extract_lane(i16x8.narrow_i32x4_s(sums, sums), 0), SUMS);
    a += ACT_BLOCK;
    p += ACT_BLOCK;
  }
}

/** y[0..15] = (`more`: +=) n super-blocks of 16 packed rows at w . ordered activations at a. */
function gemv_q2_K(w: usize, n: i32, a: usize, y: usize, more: bool): void {
  const f = changetype<Q2_K>(0), m = f.mask(), m2 = f.mask2();
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  if (more) y0 = v128.load(y), y1 = v128.load(y, 16), y2 = v128.load(y, 32), y3 = v128.load(y, 48);
  for (; n > 0; n--) {
    const d0 = f.half_d<G0>(w), d1 = f.half_d<G1>(w), d2 = f.half_d<G2>(w), d3 = f.half_d<G3>(w);
    const e0 = f.half_m<G0>(w), e1 = f.half_m<G1>(w), e2 = f.half_m<G2>(w), e3 = f.half_m<G3>(w);
    for (let sub = 0; sub < 8; sub++) {
      const da = v128.load32_splat(a, ACT_D), sums = v128.load32_splat(a, SUMS);
      let s0 = i32x4.splat(0), s1 = s0, s2 = s0, s3 = s0, u0 = s0, u1 = s0, u2 = s0, u3 = s0, p = a, q = f.quads(w, sub);
      // A loop, as in gemv_w16.ts.
      for (const end = a + ACT_QUANTS; p != end; p += 16) {
        let x = v128.load32_splat(p), z = v128.load32_splat(p, 4);
        let v0 = v128.load(q), v1 = v128.load(q, 16), v2 = v128.load(q, 32), v3 = v128.load(q, 48);
        s0 = onto(s0, x, v128.and(v0, m)), u0 = onto(u0, z, v128.and(v0, m2)), s1 = onto(s1, x, v128.and(v1, m)), u1 = onto(u1, z, v128.and(v1, m2));
        s2 = onto(s2, x, v128.and(v2, m)), u2 = onto(u2, z, v128.and(v2, m2)), s3 = onto(s3, x, v128.and(v3, m)), u3 = onto(u3, z, v128.and(v3, m2));
        x = v128.load32_splat(p, 8), z = v128.load32_splat(p, 12);
        v0 = i16x8.shr_u(v0, 4), v1 = i16x8.shr_u(v1, 4), v2 = i16x8.shr_u(v2, 4), v3 = i16x8.shr_u(v3, 4);
        s0 = onto(s0, x, v128.and(v0, m)), u0 = onto(u0, z, v128.and(v0, m2)), s1 = onto(s1, x, v128.and(v1, m)), u1 = onto(u1, z, v128.and(v1, m2));
        s2 = onto(s2, x, v128.and(v2, m)), u2 = onto(u2, z, v128.and(v2, m2)), s3 = onto(s3, x, v128.and(v3, m)), u3 = onto(u3, z, v128.and(v3, m2));
        q += 64;
      }
      const sc01 = f.half_scales(w, sub), sc23 = f.half_scales(w + 16, sub);
      y0 = run<G0>(y0, d0, e0, s0, u0, sc01, sums, da);
      y1 = run<G1>(y1, d1, e1, s1, u1, sc01, sums, da);
      y2 = run<G2>(y2, d2, e2, s2, u2, sc23, sums, da);
      y3 = run<G3>(y3, d3, e3, s3, u3, sc23, sums, da);
      a += ACT_BLOCK;
    }
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

// @ts-ignore: decorator
@inline
function onto(s: v128, a: v128, w: v128): v128 { return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(a, w)); }

/** One run's sums, of even words s and of odd ones u, onto those of group G. */
// @ts-ignore: decorator
@inline
function run<G>(y: v128, d: v128, e: v128, s: v128, u: v128, sc: v128, sums: v128, da: v128): v128 {
  const f = changetype<Q2_K>(0);
  const i = i32x4.dot_i16x8_s(i16x8.add(s, i16x8.shr_s(u, f.up())), f.half_scale<G>(sc)), mins = i32x4.dot_i16x8_s(f.half_min<G>(sc), sums);
  return madd(madd(f32x4.convert_i32x4_s(i), d, f32x4.mul(f32x4.convert_i32x4_s(mins), e)), da, y);
}
