// Generated from assembly/templates/gemv_bits.ts by `npm run generate`: edit the template.
/**
 * gemv_16x1.ts for codes of 1 and 2 bits without integer scales (format/few_bits.ts): one column of
 * activations times 16 packed rows. gemm_8x4_bits.ts does the same f32 operations in the same
 * order.
 *
 * Each half has its own sum, because codes of the second half are scaled by 4. A sum covers 64
 * weights: 16 products of 12 * 127 fit an i16 lane. The centre is taken off the first half's sum,
 * where 16 products of 3 * 127 leave room for 32 quants. So 64 products cost 14 operations and one
 * f32 update; q4_0 needs 16 and two updates.
 *
 * The shape of the loop decides which values V8 keeps in registers. There is one loop over runs of
 * 64 weights, because between two nested loops the four f32 sums would be spilled. Within a run, a
 * loop of two rounds takes the quads at the same place in both sub-blocks. V8 unrolls it and keeps
 * its order, in which all sums and two quads of activations fit the registers.
 *
 * Not kept, all slower: a loop over sub-blocks around one over vectors. Scales computed for each
 * run, or lane sums of both sub-blocks added here. Rounds unrolled by hand, which Binaryen
 * reorders. One or two groups at a time with a sum for every bit of q1_0, although these are fewer
 * operations.
 *
 * Also not kept: tables of all sums of four activations, which look up four bits of q1_0 at once
 * (T-MAC, arXiv 2407.00088). They are faster in relaxed builds while the tables fit L1, and slower
 * in dotadd builds. They take six times the memory for activations, and prompts would need another
 * layout of the weights.
 */
import { ACT_D, ACT_SUB } from './act';
import * as dot from './dot';
import { PAIR_SUMS, QUANT_BYTES, mac_quad_at } from './dot';
import { add_block } from './epilogue';
import { G0, G1, G2, G3, load_scales, store_sums } from './format/group';
import { splat_ones } from '../simd';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * QUANT_BYTES;
const QUAD: usize = 4 * QUANT_BYTES;

/**
 * y[0..15] = 16 packed rows at w . the column of activations at a; n blocks of `pairs` times two
 * sub-blocks.
 */
export function gemv_16x1_bits<F>(w: usize, n: i32, pairs: i32, a: usize, y: usize): void {
  const f = changetype<F>(0);
  const m = f.mask();
  const m2 = f.mask2();
  const ones = splat_ones();
  const bytes = f.codes_at(0, 1) - f.codes_at(0, 0);
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  let d0 = y0;
  let d1 = y0;
  let d2 = y0;
  let d3 = y0;
  let q = w;
  let left = 0;
  for (n *= pairs; n > 0; n--) {
    if (left == 0) {
      left = pairs;
      d0 = load_scales<G0>(q);
      d1 = load_scales<G1>(q);
      d2 = load_scales<G2>(q);
      d3 = load_scales<G3>(q);
      q = f.codes_at(q, 0);
    }
    left--;
    const da = v128.load32_splat(a, ACT_D);
    let s0 = dot.start_at(lane_sums_of_run(a));
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    let u0 = i32x4.splat(0);
    let u1 = u0;
    let u2 = u0;
    let u3 = u0;
    for (let sub = 0, p = a + 0 * QUAD, r = q; sub < 2; sub++, p += ACT_SUB, r += bytes) {
      const x = v128.load32_splat(p);
      const z = v128.load32_splat(p, HALF);
      let v: v128;
      v = f.quads<G0>(r, 0, 0);
      s0 = mac_quad_at(s0, x, p, v128.and(v, m));
      u0 = mac_quad_at(u0, z, p + HALF, v128.and(v, m2));
      v = f.quads<G1>(r, 0, 0);
      s1 = mac_quad_at(s1, x, p, v128.and(v, m));
      u1 = mac_quad_at(u1, z, p + HALF, v128.and(v, m2));
      v = f.quads<G2>(r, 0, 0);
      s2 = mac_quad_at(s2, x, p, v128.and(v, m));
      u2 = mac_quad_at(u2, z, p + HALF, v128.and(v, m2));
      v = f.quads<G3>(r, 0, 0);
      s3 = mac_quad_at(s3, x, p, v128.and(v, m));
      u3 = mac_quad_at(u3, z, p + HALF, v128.and(v, m2));
    }
    for (let sub = 0, p = a + 1 * QUAD, r = q; sub < 2; sub++, p += ACT_SUB, r += bytes) {
      const x = v128.load32_splat(p);
      const z = v128.load32_splat(p, HALF);
      let v: v128;
      v = f.quads<G0>(r, 0, 1);
      s0 = mac_quad_at(s0, x, p, v128.and(v, m));
      u0 = mac_quad_at(u0, z, p + HALF, v128.and(v, m2));
      v = f.quads<G1>(r, 0, 1);
      s1 = mac_quad_at(s1, x, p, v128.and(v, m));
      u1 = mac_quad_at(u1, z, p + HALF, v128.and(v, m2));
      v = f.quads<G2>(r, 0, 1);
      s2 = mac_quad_at(s2, x, p, v128.and(v, m));
      u2 = mac_quad_at(u2, z, p + HALF, v128.and(v, m2));
      v = f.quads<G3>(r, 0, 1);
      s3 = mac_quad_at(s3, x, p, v128.and(v, m));
      u3 = mac_quad_at(u3, z, p + HALF, v128.and(v, m2));
    }
    for (let sub = 0, p = a + 2 * QUAD, r = q; sub < 2; sub++, p += ACT_SUB, r += bytes) {
      const x = v128.load32_splat(p);
      const z = v128.load32_splat(p, HALF);
      let v: v128;
      v = f.quads<G0>(r, 1, 0);
      s0 = mac_quad_at(s0, x, p, v128.and(v, m));
      u0 = mac_quad_at(u0, z, p + HALF, v128.and(v, m2));
      v = f.quads<G1>(r, 1, 0);
      s1 = mac_quad_at(s1, x, p, v128.and(v, m));
      u1 = mac_quad_at(u1, z, p + HALF, v128.and(v, m2));
      v = f.quads<G2>(r, 1, 0);
      s2 = mac_quad_at(s2, x, p, v128.and(v, m));
      u2 = mac_quad_at(u2, z, p + HALF, v128.and(v, m2));
      v = f.quads<G3>(r, 1, 0);
      s3 = mac_quad_at(s3, x, p, v128.and(v, m));
      u3 = mac_quad_at(u3, z, p + HALF, v128.and(v, m2));
    }
    for (let sub = 0, p = a + 3 * QUAD, r = q; sub < 2; sub++, p += ACT_SUB, r += bytes) {
      const x = v128.load32_splat(p);
      const z = v128.load32_splat(p, HALF);
      let v: v128;
      v = f.quads<G0>(r, 1, 1);
      s0 = mac_quad_at(s0, x, p, v128.and(v, m));
      u0 = mac_quad_at(u0, z, p + HALF, v128.and(v, m2));
      v = f.quads<G1>(r, 1, 1);
      s1 = mac_quad_at(s1, x, p, v128.and(v, m));
      u1 = mac_quad_at(u1, z, p + HALF, v128.and(v, m2));
      v = f.quads<G2>(r, 1, 1);
      s2 = mac_quad_at(s2, x, p, v128.and(v, m));
      u2 = mac_quad_at(u2, z, p + HALF, v128.and(v, m2));
      v = f.quads<G3>(r, 1, 1);
      s3 = mac_quad_at(s3, x, p, v128.and(v, m));
      u3 = mac_quad_at(u3, z, p + HALF, v128.and(v, m2));
    }
    q += 2 * bytes;
    a += 2 * ACT_SUB;
    y0 = end_run<F>(y0, s0, u0, d0, da, ones);
    y1 = end_run<F>(y1, s1, u1, d1, da, ones);
    y2 = end_run<F>(y2, s2, u2, d2, da, ones);
    y3 = end_run<F>(y3, s3, u3, d3, da, ones);
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Lane sums of 64 quants, whose two sub-blocks begin at a. */
@inline
export function lane_sums_of_run(a: usize): v128 {
  return v128.load32_splat(a, ACT_SUB + ACT_D);
}

/** Ends a run: adds 64 weights' sums s and u / 4, times the scales, to a group's f32 sums y. */
@inline
function end_run<F>(y: v128, s: v128, u: v128, d: v128, da: v128, ones: v128): v128 {
  const i = PAIR_SUMS ? i16x8.add(s, i16x8.shr_s(u, 2)) : i32x4.add(s, i32x4.shr_s(u, 2));
  return add_block<F>(y, dot.row_sums(i, ones), d, da);
}
