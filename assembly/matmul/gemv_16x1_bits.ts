/**
 * gemv_16x1.ts for codes of 1 and 2 bits without integer scales (format/few_bits.ts): one column of activations times 16 packed rows.
 *
 * Sums of both halves are apart, because codes of the second half are four times too large, and go over 64 weights: i16 has room for 16 products
 * of 12 * 127 in a lane, and the centre comes off the first half's sums, in which 16 products of 3 * 127 leave room for 32 quants. So 64 products cost 14
 * operations where q4_0's cost 16, and one f32 step where those cost two. gemm_8x4_bits.ts does the same f32 operations in the same order. (The round of
 * quads is gemv_16x1_s16.ts's, in whose lines V8 keeps all sums in registers; as a function it would have to return eight.)
 *
 * One loop over runs of 64 weights, not one over blocks and one over their runs: between two loops the four f32 sums go to memory and back (q2_0, whose blocks
 * have one run, 1.07 of the speed, tq2_0 1.02: Zen 4, Node 24, relaxed, weights in cache). Not kept: both rounds of quads written out (0.91 to 0.95 of the
 * speed), whichever of groups and quads is the outer one.
 *
 * Not kept: tables of all sums of four activations, in which four bits of q1_0 are looked up at once (T-MAC, arXiv 2407.00088). With low five bits and the
 * others apart in bytes, 64 products take 7 operations: 63 GMAC/s where this loop has 43 (rows of 2048, relaxed, Sapphire Rapids, Node 24), but 53 with rows of
 * 8192, whose tables leave L1, and in dotadd builds this loop has 56. Activations would take six times the memory, and prompts another layout of the weights.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_SUB } from './act';
import * as dot from './dot';
import { PAIR_SUMS, QUANT_BYTES, mac_quad_at } from './dot';
import { add_block } from './epilogue';
import { G0, G1, G2, G3, load_scales, store_sums } from './format/group';
import { held_ones } from '../simd';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * QUANT_BYTES;
const QUAD: usize = 4 * QUANT_BYTES;

/** y[0..15] = 16 packed rows at w . the column of activations at a; n blocks of `pairs` times two sub-blocks. */
export function gemv_16x1_bits<F>(w: usize, n: i32, pairs: i32, a: usize, y: usize): void {
  const f = changetype<F>(0);
  const m = f.mask();
  const m2 = f.mask2();
  const ones = held_ones();
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  let left = pairs;
  let q = f.codes_at(w, 0);
  for (n *= pairs; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let s0 = dot.start_at(lane_sums_of_run(a));
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    let u0 = i32x4.splat(0);
    let u1 = u0;
    let u2 = u0;
    let u3 = u0;
    for (const last = a + 2 * ACT_SUB; a != last; a += ACT_SUB) {
      // Two rounds for the two vectors of a sub-block; see gemv_16x1_s16.ts for why they are a loop.
      for (let i = 0, p = a; i < 2; i++, p += 2 * QUAD) {
        let x = v128.load32_splat(p);
        let z = v128.load32_splat(p, HALF);
        let v0 = f.vector<G0>(q, i);
        let v1 = f.vector<G1>(q, i);
        let v2 = f.vector<G2>(q, i);
        let v3 = f.vector<G3>(q, i);
        s0 = mac_quad_at(s0, x, p, v128.and(v0, m));
        u0 = mac_quad_at(u0, z, p + HALF, v128.and(v0, m2));
        s1 = mac_quad_at(s1, x, p, v128.and(v1, m));
        u1 = mac_quad_at(u1, z, p + HALF, v128.and(v1, m2));
        s2 = mac_quad_at(s2, x, p, v128.and(v2, m));
        u2 = mac_quad_at(u2, z, p + HALF, v128.and(v2, m2));
        s3 = mac_quad_at(s3, x, p, v128.and(v3, m));
        u3 = mac_quad_at(u3, z, p + HALF, v128.and(v3, m2));
        const r = p + QUAD;
        x = v128.load32_splat(p, QUAD);
        z = v128.load32_splat(p, HALF + QUAD);
        v0 = i16x8.shr_u(v0, 4);
        v1 = i16x8.shr_u(v1, 4);
        v2 = i16x8.shr_u(v2, 4);
        v3 = i16x8.shr_u(v3, 4);
        s0 = mac_quad_at(s0, x, r, v128.and(v0, m));
        u0 = mac_quad_at(u0, z, r + HALF, v128.and(v0, m2));
        s1 = mac_quad_at(s1, x, r, v128.and(v1, m));
        u1 = mac_quad_at(u1, z, r + HALF, v128.and(v1, m2));
        s2 = mac_quad_at(s2, x, r, v128.and(v2, m));
        u2 = mac_quad_at(u2, z, r + HALF, v128.and(v2, m2));
        s3 = mac_quad_at(s3, x, r, v128.and(v3, m));
        u3 = mac_quad_at(u3, z, r + HALF, v128.and(v3, m2));
      }
      q = f.codes_at(q, 1) - f.codes_at(0, 0);
    }
    y0 = end_pair<F, G0>(y0, s0, u0, w, da, ones);
    y1 = end_pair<F, G1>(y1, s1, u1, w, da, ones);
    y2 = end_pair<F, G2>(y2, s2, u2, w, da, ones);
    y3 = end_pair<F, G3>(y3, s3, u3, w, da, ones);
    if (--left == 0) {
      left = pairs;
      w = q;
      q = f.codes_at(w, 0);
    }
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Lane sums of 64 quants, whose sub-blocks begin at a. */
// @ts-ignore: decorator
@inline
export function lane_sums_of_run(a: usize): v128 {
  return i16x8.add(lane_sums(a), lane_sums(a + ACT_SUB));
}

/** Lane sums of the 32 quants at a. */
// @ts-ignore: decorator
@inline
function lane_sums(a: usize): v128 {
  return i16x8.add(v128.load32_splat(a, ACT_LANE_SUMS0), v128.load32_splat(a, ACT_LANE_SUMS1));
}

/** 64 weights' sums s and u onto those of group G. */
// @ts-ignore: decorator
@inline
function end_pair<F, G>(y: v128, s: v128, u: v128, w: usize, da: v128, ones: v128): v128 {
  const i = PAIR_SUMS ? i16x8.add(s, i16x8.shr_s(u, 2)) : i32x4.add(s, i32x4.shr_s(u, 2));
  return add_block<F>(y, dot.row_sums(i, ones), load_scales<G>(w), da);
}
