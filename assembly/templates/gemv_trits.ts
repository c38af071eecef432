// $let GROUPS = 4
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
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    let q = runs_at(w);
    const last = last_quads_at(w);
    for (let run = 0; run < 4; run++) {
      const da = v128.load32_splat(a, ACT_D);
      let s0 = dot.start_at(lane_sums_of_run(a));
      let s$g = s0; // $for g of 1..GROUPS
      let p = a;
      const second = a + 8 * QUAD;
      for (const end = q + 192; q != end; q += 64) {
        let v$g = v128.load(q, $(16 * g)); // $for g of 0..GROUPS
        for (let i = 0; i < 5; i++) {
          const x = v128.load32_splat(p);
          // $for g of 0..GROUPS
          s$g = mac_quad_at(s$g, x, p, first_trits(v$g, b1, b2));
          v$g = next_trits(v$g);
          // $end
          p += QUAD;
          if (p == second) p = a + ACT_SUB;
        }
      }
      const x = v128.load32_splat(p);
      s$g = mac_quad_at(s$g, x, p, last_trits(v128.load(last, $(16 * g)), run)); // $for g of 0..GROUPS
      y$g = add_block<TQ1_0>(y$g, dot.row_sums(s$g, ones), load_scales<G$g>(w), da); // $for g of 0..GROUPS
      a += 2 * ACT_SUB;
    }
    w = q;
  }
  store_sums(y, y0, y1, y2, y3);
}
