// Generated from assembly/templates/gemv_trits.ts by `npm run generate`: edit the template.
/**
 * gemv_16x1.ts for codes of base 3, five in a byte (format/tq1_0.ts): one column of activations
 * times 16 packed rows. Runs of 64 weights, activations and f32 updates are those of
 * gemv_16x1_bits.ts, and of gemm_8x4_bits.ts over a panel. A digit takes six operations for 16
 * weights. Two comparisons give the digit (the magnitude of their sum); two additions bring the
 * next digit to the top.
 */
import { ACT_D, ACT_SUB } from './act';
import * as dot from './dot';
import { QUANT_BYTES, mac_quad_at } from './dot';
import { add_block } from './epilogue';
import { G0, G1, G2, G3, load_scales, store_sums } from './format/group';
import { TQ1_0, bound1, bound2, first_trits, last_quads_at, last_trits, next_trits, runs_at } from './format/tq1_0';
import { lane_sums_of_run } from './gemv_16x1_bits';
import { splat_ones } from '../simd';

/** Bytes of 4 quants. */
const QUAD: usize = 4 * QUANT_BYTES;

/** y[0..15] = 16 packed rows at w . the column of activations at a; n blocks. */
export function gemv_16x1_trits(w: usize, n: i32, a: usize, y: usize): void {
  const b1 = bound1();
  const b2 = bound2();
  const ones = splat_ones();
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  for (; n > 0; n--) {
    let q = runs_at(w);
    const last = last_quads_at(w);
    for (let run = 0; run < 4; run++) {
      const da = v128.load32_splat(a, ACT_D);
      let s0 = dot.start_at(lane_sums_of_run(a));
      let s1 = s0;
      let s2 = s0;
      let s3 = s0;
      let p = a;
      const second = a + 8 * QUAD;
      for (const end = q + 192; q != end; q += 64) {
        let v0 = v128.load(q, 0);
        let v1 = v128.load(q, 16);
        let v2 = v128.load(q, 32);
        let v3 = v128.load(q, 48);
        for (let i = 0; i < 5; i++) {
          const x = v128.load32_splat(p);
          s0 = mac_quad_at(s0, x, p, first_trits(v0, b1, b2));
          v0 = next_trits(v0);
          s1 = mac_quad_at(s1, x, p, first_trits(v1, b1, b2));
          v1 = next_trits(v1);
          s2 = mac_quad_at(s2, x, p, first_trits(v2, b1, b2));
          v2 = next_trits(v2);
          s3 = mac_quad_at(s3, x, p, first_trits(v3, b1, b2));
          v3 = next_trits(v3);
          p += QUAD;
          if (p == second) p = a + ACT_SUB;
        }
      }
      const x = v128.load32_splat(p);
      s0 = mac_quad_at(s0, x, p, last_trits(v128.load(last, 0), run));
      s1 = mac_quad_at(s1, x, p, last_trits(v128.load(last, 16), run));
      s2 = mac_quad_at(s2, x, p, last_trits(v128.load(last, 32), run));
      s3 = mac_quad_at(s3, x, p, last_trits(v128.load(last, 48), run));
      y0 = add_block<TQ1_0>(y0, dot.row_sums(s0, ones), load_scales<G0>(w), da);
      y1 = add_block<TQ1_0>(y1, dot.row_sums(s1, ones), load_scales<G1>(w), da);
      y2 = add_block<TQ1_0>(y2, dot.row_sums(s2, ones), load_scales<G2>(w), da);
      y3 = add_block<TQ1_0>(y3, dot.row_sums(s3, ones), load_scales<G3>(w), da);
      a += 2 * ACT_SUB;
    }
    w = q;
  }
  store_sums(y, y0, y1, y2, y3);
}
