// $let GROUPS = 4
/**
 * gemv_16x1.ts for formats with a scale for every 16 weights whose vectors of codes serve both
 * halves of a sub-block: codes of 3 bits (q3_K) and of 2 (q2_K, in builds without
 * gemv_16x1_q2_K.ts). One column of activations times 16 packed rows.
 *
 * Two sums for every group, one for each half, and four activations at a time stay in registers.
 * The integer sums of a super-block add all halves times their scales. gemm_8x4.ts does the same
 * operations in the same order. Not kept: one sum for both halves of q3_K (slower).
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_SUB, ACT_SUM } from './act';
import * as dot from './dot';
import { QUANT_BYTES, mac_quad_at } from './dot';
import { add_minima, end_block } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';
import { fourth_quad, minima_of_halves } from './format/s16';

/** Bytes of 16 quants, and of 4. */
const HALF: usize = 16 * QUANT_BYTES;
const QUAD: usize = 4 * QUANT_BYTES;

/** y[0..15] = 16 packed rows at w . the column of activations at a; n super-blocks. */
export function gemv_16x1_s16<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (fmt.width<F>() != 2 && fmt.width<F>() != 3) ERROR('codes of other widths want a loop of their own');
  if (fmt.biased<F>()) ERROR('with s16, only the centre is taken off');
  const f = changetype<F>(0);
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  let y0 = f32x4.splat(0);
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    const zero = i32x4.splat(0);
    let i$g = zero; // $for g of 0..GROUPS
    let n$g = zero; // $for g of 0..GROUPS
    for (let sub = 0; sub < 8; sub++) {
      const l0 = v128.load32_splat(a, ACT_LANE_SUMS0);
      const l1 = v128.load32_splat(a, ACT_LANE_SUMS1);
      let s0 = dot.start_at(fmt.offset<F>(l0));
      let u0 = dot.start_at(fmt.offset<F>(i16x8.shl(l1, fmt.second_shift<F>())));
      let s$g = s0; // $for g of 1..GROUPS
      let u$g = u0; // $for g of 1..GROUPS
      let p = a;
      let q = f.codes_at(w, sub);
      // Not unrolled: V8 would then group the work of each group, and the activations would be
      // spilled.
      for (const end = a + (fmt.width<F>() == 2 ? 4 : 3) * QUAD; p != end; p += STEP<F>()) {
        const x = v128.load32_splat(p);
        const z = v128.load32_splat(p, HALF);
        let v$g = v128.load(q, $(16 * g)); // $for g of 0..GROUPS
        // $for g of 0..GROUPS
        s$g = mac_quad_at(s$g, x, p, v128.and(v$g, m));
        u$g = mac_quad_at(u$g, z, p + HALF, v128.and(v$g, m2));
        // $end
        if (fmt.width<F>() == 2) {
          const r = p + QUAD;
          const x1 = v128.load32_splat(p, QUAD);
          const z1 = v128.load32_splat(p, HALF + QUAD);
          v$g = i16x8.shr_u(v$g, 4); // $for g of 0..GROUPS
          // $for g of 0..GROUPS
          s$g = mac_quad_at(s$g, x1, r, v128.and(v$g, m));
          u$g = mac_quad_at(u$g, z1, r + HALF, v128.and(v$g, m2));
          // $end
        }
        q += 64;
      }
      if (fmt.width<F>() != 2) {
        const x = v128.load32_splat(p);
        const z = v128.load32_splat(p, HALF);
        q -= 192;
        let v: v128;
        // $for g of 0..GROUPS
        v = fourth_quad<G$g>(q);
        s$g = mac_quad_at(s$g, x, p, v128.and(v, m));
        u$g = mac_quad_at(u$g, z, p + HALF, v128.and(v, m2));
        // $end
      }
      const sc = f.sc(w, sub << 1);
      const tc = f.sc(w, (sub << 1) | 1);
      i$g = add_halves<F, G$g>(i$g, s$g, u$g, sc, tc); // $for g of 0..GROUPS
      if (fmt.has_min<F>()) {
        const sums = v128.load32_splat(a, ACT_SUM);
        const v = fmt.mn<F>(w, sub << 1);
        const z = fmt.mn<F>(w, (sub << 1) | 1);
        n$g = add_minima(n$g, minima_of_halves<G$g>(v, z), sums); // $for g of 0..GROUPS
      }
      a += ACT_SUB;
    }
    y$g = end_block<F, G$g>(y$g, i$g, n$g, w, da); // $for g of 0..GROUPS
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Bytes of activations that one round of the loop reads. */
@inline
function STEP<F>(): usize {
  return fmt.width<F>() == 2 ? 2 * QUAD : QUAD;
}

/**
 * Adds the sums of both halves of a sub-block, times their scales, to those of group G. The second
 * half's are second_shift bits too large.
 */
@inline
function add_halves<F, G>(i: v128, s: v128, u: v128, sc: v128, tc: v128): v128 {
  const second = dot.scaled(u, fmt.scale<F, G>(tc));
  return i32x4.add(i32x4.add(i, dot.scaled(s, fmt.scale<F, G>(sc))), i32x4.shr_s(second, fmt.second_shift<F>()));
}
