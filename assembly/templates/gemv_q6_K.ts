// $let GROUPS = 4
/**
 * gemv_16x1.ts for formats of 6 bits with a scale for every 16 weights (q6_K): one column of
 * activations times 16 packed rows, half after half of the sub-blocks. The 16 activations of a half
 * stay in registers for all four groups. So a vector of codes is loaded once, for its own quad and
 * for its bits of quad 3 (format/s16.ts), which takes a quarter fewer instructions than a loop over
 * quads.
 *
 * A super-block's integer sums lie in memory. V8 moves no load across a store; without the stores,
 * Node 20 and 22 load the codes of all groups first and spill them. The integer sums and f32
 * operations are those of gemm_8x4.ts.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_QUANTS, ACT_SUB } from './act';
import * as dot from './dot';
import { QUANT_BYTES, mac_quad_at } from './dot';
import { add_block } from './epilogue';
import { bytes_0xc0 } from './format/constants';
import * as fmt from './format/format';
import { G0, G1, G2, G3, store_sums } from './format/group';

/** Bytes of scratch: the integer sums of 16 rows. */
export const SUMS: usize = 64;

/** Bytes of 4 quants. */
const QUAD: usize = 4 * QUANT_BYTES;

/**
 * y[0..15] = 16 packed rows at w . the column of activations at a; n super-blocks. sums: SUMS
 * bytes.
 */
export function gemv_16x1_q6_K<F>(w: usize, n: i32, a: usize, y: usize, sums: usize): void {
  if (fmt.width<F>() != 6 || !fmt.s16<F>() || fmt.has_min<F>()) ERROR('for codes of 6 bits with scales for 16 of them, without minima');
  const f = changetype<F>(0);
  const m = fmt.mask<F>();
  const top = bytes_0xc0();
  const zero = i32x4.splat(0);
  let y0 = f32x4.splat(0);
  let y$g = y0; // $for g of 1..GROUPS
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let q = f.codes_at(w, 0);
    let scales = f.scales_at(w, 0);
    let lane_sums = a + ACT_LANE_SUMS0;
    store_sums(sums, zero, zero, zero, zero);
    for (let half = 0; half < 16; half++) {
      const x$t = v128.load32_splat(a, $t * QUAD); // $for t of 0..4
      const start = dot.start_at(fmt.offset<F>(v128.load32_splat(lane_sums)));
      const sc = v128.load8x8_s(scales);
      const tc = v128.load8x8_s(scales, 8);
      group<G$g>(sums, q, a, x0, x1, x2, x3, start, $sc, m, top); // $for g, sc of [[0, 'sc'], [1, 'sc'], [2, 'tc'], [3, 'tc']]
      q += 192;
      scales += 16;
      a += 4 * QUAD;
      lane_sums += 4;
      if ((half & 1) != 0) {
        a += ACT_SUB - ACT_QUANTS;
        lane_sums += ACT_SUB - 8;
      }
    }
    y$g = add_block<F>(y$g, v128.load(sums, $(16 * g)), fmt.d<F, G$g>(w), da); // $for g of 0..GROUPS
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/**
 * Adds a half's 16 products for each row of group G, times their scale, to its sums in memory. sc:
 * i16 scales of eight rows.
 */
@inline
function group<G>(
  sums: usize,
  q: usize,
  a: usize,
  x$t: v128, // $for t of 0..4
  first: v128,
  sc: v128,
  m: v128,
  top: v128,
): void {
  const v$t = v128.load(q, offsetof<G>() + $(64 * t)); // $for t of 0..3
  let s = first;
  s = mac_quad_at(s, x$t, a + $t * QUAD, v128.and(v$t, m)); // $for t of 0..3
  const v = v128.or(v128.or(i16x8.shr_u(v128.and(v0, top), 6), i16x8.shr_u(v128.and(v1, top), 4)), i16x8.shr_u(v128.and(v2, top), 2));
  s = mac_quad_at(s, x3, a + 3 * QUAD, v);
  v128.store(sums, i32x4.add(v128.load(sums, offsetof<G>()), dot.scaled(s, dot.scales_i16<G>(sc))), offsetof<G>());
}
