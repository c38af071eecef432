// $let GROUPS = 4
/**
 * gemv_16x1.ts for formats whose scales of 16 weights are f32 (nvfp4): one column of activations
 * times 16 packed rows. As in gemv_16x1_q6_K.ts, the 16 activations of a half stay in registers for
 * all four groups. A block's sums are f32 and add the halves in order, as in gemm_8x4.ts.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_SUB } from './act';
import * as dot from './dot';
import { QUANT_BYTES, mac_quad_at } from './dot';
import { add_block, add_scaled } from './epilogue';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';

/** Bytes of 4 quants. */
const QUAD: usize = 4 * QUANT_BYTES;

/** y[0..15] = 16 packed rows at w . the column of activations at a; n blocks. */
export function gemv_16x1_nvfp4<F>(w: usize, n: i32, a: usize, y: usize): void {
  if (!fmt.f32_scales<F>()) ERROR('for scales that are f32');
  const f = changetype<F>(0);
  const zero = f32x4.splat(0);
  let y$g = zero; // $for g of 0..GROUPS
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let i$g = zero; // $for g of 0..GROUPS
    for (let half = 0; half < 4; half++) {
      const p = a + (<usize>half & 1) * 4 * QUAD;
      const q = f.codes_at(w, half >> 1) + ((<usize>half & 1) << 7);
      const x$t = v128.load32_splat(p, $t * QUAD); // $for t of 0..4
      const start = dot.start_at(fmt.offset<F>(v128.load32_splat(a + ((<usize>half & 1) << 2), ACT_LANE_SUMS0)));
      const sc = f.sc(w, half);
      i$g = group<F, G$g>(i$g, q, p, x0, x1, x2, x3, start, sc); // $for g of 0..GROUPS
      if ((half & 1) != 0) a += ACT_SUB;
    }
    y$g = add_block<F>(y$g, i$g, zero, da); // $for g of 0..GROUPS
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Adds a half's 16 products for each row of group G, times their scale, to its sums i. */
@inline
function group<F, G>(i: v128, q: usize, p: usize, x0: v128, x1: v128, x2: v128, x3: v128, start: v128, sc: v128): v128 {
  let s = start;
  s = mac_quad_at(s, x$t, p + $t * QUAD, fmt.half_codes<F, G>(q, 0, $t)); // $for t of 0..4
  return add_scaled<F>(i, s, start, fmt.scale<F, G>(sc));
}
