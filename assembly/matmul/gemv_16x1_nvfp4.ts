// Generated from assembly/templates/gemv_nvfp4.ts by `npm run generate`: edit the template.
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
  let y0 = zero;
  let y1 = zero;
  let y2 = zero;
  let y3 = zero;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let i0 = zero;
    let i1 = zero;
    let i2 = zero;
    let i3 = zero;
    for (let half = 0; half < 4; half++) {
      const p = a + (<usize>half & 1) * 4 * QUAD;
      const q = f.codes_at(w, half >> 1) + ((<usize>half & 1) << 7);
      const x0 = v128.load32_splat(p, 0 * QUAD);
      const x1 = v128.load32_splat(p, 1 * QUAD);
      const x2 = v128.load32_splat(p, 2 * QUAD);
      const x3 = v128.load32_splat(p, 3 * QUAD);
      const start = dot.start_at(fmt.offset<F>(v128.load32_splat(a + ((<usize>half & 1) << 2), ACT_LANE_SUMS0)));
      const sc = f.sc(w, half);
      i0 = group<F, G0>(i0, q, p, x0, x1, x2, x3, start, sc);
      i1 = group<F, G1>(i1, q, p, x0, x1, x2, x3, start, sc);
      i2 = group<F, G2>(i2, q, p, x0, x1, x2, x3, start, sc);
      i3 = group<F, G3>(i3, q, p, x0, x1, x2, x3, start, sc);
      if ((half & 1) != 0) a += ACT_SUB;
    }
    y0 = add_block<F>(y0, i0, zero, da);
    y1 = add_block<F>(y1, i1, zero, da);
    y2 = add_block<F>(y2, i2, zero, da);
    y3 = add_block<F>(y3, i3, zero, da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** Adds a half's 16 products for each row of group G, times their scale, to its sums i. */
@inline
function group<F, G>(i: v128, q: usize, p: usize, x0: v128, x1: v128, x2: v128, x3: v128, start: v128, sc: v128): v128 {
  let s = start;
  s = mac_quad_at(s, x0, p + 0 * QUAD, fmt.half_codes<F, G>(q, 0, 0));
  s = mac_quad_at(s, x1, p + 1 * QUAD, fmt.half_codes<F, G>(q, 0, 1));
  s = mac_quad_at(s, x2, p + 2 * QUAD, fmt.half_codes<F, G>(q, 0, 2));
  s = mac_quad_at(s, x3, p + 3 * QUAD, fmt.half_codes<F, G>(q, 0, 3));
  return add_scaled<F>(i, s, start, fmt.scale<F, G>(sc));
}
