// $let GROUPS = 4
/**
 * One column of activations times 16 packed rows (a row block) of any format. Generation spends its
 * time here: start reading here. Weights stream once from memory, in order. The four groups of rows
 * share the activations of a sub-block. Other GEMVs: gemv_16x1_s16.ts for formats with a scale for
 * every 16 weights, gemv_16x1_signs.ts for 8-bit codes with relaxed SIMD.
 *
 * Each output gets one f32 update a block, in ascending order (end_block in epilogue.ts): the
 * integer sum of 32 products, or of a super-block's 256, is converted, scaled and added. In
 * gemm_8x4.ts the operations and their order are the same, so a token's numbers do not depend on
 * its batch.
 *
 * AssemblyScript functions return one value, so sums must be locals. A template writes the lines of
 * the four groups, here and in all GEMVs (gemv_16x1_*.ts).
 *
 * On x64 the limit is operations of the vector unit, not instructions. Not kept: one group after
 * the other with the activations in registers (fewer instructions, but slower, from long chains of
 * additions).
 */
import { ACT_D, ACT_SUB, ACT_SUM } from './act';
import * as dot from './dot';
import { QUANT_BYTES } from './dot';
import { add_minima, add_scaled, bias, end_block, lane_sums, start, unbiased } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';
import { minima_of_group } from './format/k_scales';
import { splat_ones } from '../simd';

/** y[0..15] = 16 packed rows at w . the column of activations at a; n blocks. */
export function gemv_16x1<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (fmt.s16<F>()) ERROR('a format with a scale for every 16 weights takes another loop');
  const f = changetype<F>(0);
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const ones = splat_ones();
  const zero = i32x4.splat(0);
  let y0 = f32x4.splat(0);
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    const block = a;
    let sub = 0;
    let i$g = zero; // $for g of 0..GROUPS
    do {
      const h = fmt.rests_at<F>(w, sub);
      const end = a + ACT_SUB;
      const sums = lane_sums<F>(a);
      const first = start<F>(sums);
      let s$g = first; // $for g of 0..GROUPS
      let b$g = fmt.rests<F, G$g>(h, 0); // $for g of 0..GROUPS
      let q = f.codes_at(w, sub);
      for (let t = 0; t < 4; t++) {
        const x0 = dot.first_quants(a);
        const x1 = dot.last_quants(a, x0);
        const z0 = dot.first_quants(a + 16 * QUANT_BYTES);
        const z1 = dot.last_quants(a + 16 * QUANT_BYTES, z0);
        // $for g of 0..GROUPS
        s$g = quad<F, G$g>(s$g, q, t, b$g, x0, x1, z0, z1, m, m2);
        b$g = fmt.next_rests<F>(b$g);
        // $end
        q += fmt.quad_bytes<F>();
        a += 4 * QUANT_BYTES;
      }
      a = end;
      if (fmt.super_block<F>()) {
        const sc = fmt.sc<F>(w, sub);
        i$g = add_scaled<F>(i$g, s$g, first, fmt.scale<F, G$g>(sc)); // $for g of 0..GROUPS
      } else {
        const back = bias<F>(sums);
        i$g = unbiased<F>(dot.row_sums(s$g, ones), back); // $for g of 0..GROUPS
      }
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    let n$g = zero; // $for g of 0..GROUPS
    if (fmt.has_min<F>() && fmt.super_block<F>()) {
      sub = 0;
      for (let p = block + ACT_SUB + ACT_D; sub < 8; p += 2 * ACT_SUB) {
        const sums = v128.load32_splat(p);
        const v = fmt.mn<F>(w, sub);
        const z = fmt.mn<F>(w, sub + 1);
        n$g = add_minima(n$g, minima_of_group<G$g>($mn), sums); // $for g, mn of [[0, 'v'], [1, 'v'], [2, 'z'], [3, 'z']]
        sub += 2;
      }
    } else if (fmt.has_min<F>()) {
      n0 = n1 = n2 = n3 = v128.load32_splat(block, ACT_SUM);
    }
    const da = v128.load32_splat(block, ACT_D);
    y$g = end_block<F, G$g>(y$g, i$g, n$g, w, da); // $for g of 0..GROUPS
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/**
 * Adds quad t of both halves to group G's sums s. x0, x1: the first half's activations (dot.ts);
 * z0, z1: the second half's.
 */
@inline
function quad<F, G>(s: v128, q: usize, t: i32, b: v128, x0: v128, x1: v128, z0: v128, z1: v128, m: v128, m2: v128): v128 {
  const v = fmt.load_first<F, G>(q, t);
  return dot.mac_quad(dot.mac_quad(s, x0, x1, fmt.first<F>(v, m, m2)), z0, z1, fmt.second<F>(fmt.load_second<F, G>(q, t, v), b, m, m2));
}
