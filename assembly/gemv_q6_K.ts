/**
 * gemv.ts for q6_K: one activation row times 16 packed rows, half-run after half-run. The activations of 16 weights stay in registers for all
 * four groups, so a vector of codes is loaded once, for its own quad and for its bits of quad 3.
 *
 * On x64 the six instructions a core takes in a cycle are the limit: 230 for 32 weights of 16 rows, where gemv_w16.ts's loop over quads, which
 * loads codes twice, had 330. The same integer sums and f32 operations as gemm.ts.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_QUANTS } from './act';
import { ACT_QUANT } from './dot';
import { add_super_block, scale } from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { Q6_K } from './packed/q6_K';
import { bits_0xc0, onto } from './packed/w16';

/** Bytes of 4 quants. */
const QUAD: usize = 4 * ACT_QUANT;

/** y[0..15] = 16 packed rows at w . the activation row at a; n super-blocks, dots of flavour D. */
export function gemv_q6_K<D>(w: usize, n: i32, a: usize, y: usize): void {
  const f = changetype<Q6_K>(0), m = f.mask(), top = bits_0xc0(), zero = i32x4.splat(0);
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let i0 = zero, i1 = zero, i2 = zero, i3 = zero, q = f.quads(w, 0), pairs = a + ACT_PAIRS0;
    for (let i = 0; i < 16; i++) {
      const x0 = v128.load32_splat(a), x1 = v128.load32_splat(a, QUAD), x2 = v128.load32_splat(a, 2 * QUAD), x3 = v128.load32_splat(a, 3 * QUAD);
      const start = changetype<D>(0).init(f.offset(v128.load32_splat(pairs))), sc = f.sc(w, i);
      i0 = group<D, G0>(i0, q, a, x0, x1, x2, x3, start, sc, m, top);
      i1 = group<D, G1>(i1, q, a, x0, x1, x2, x3, start, sc, m, top);
      i2 = group<D, G2>(i2, q, a, x0, x1, x2, x3, start, sc, m, top);
      i3 = group<D, G3>(i3, q, a, x0, x1, x2, x3, start, sc, m, top);
      q += 192;
      a += 4 * QUAD;
      pairs += 4;
      if ((i & 1) != 0) a += ACT_BLOCK - ACT_QUANTS, pairs += ACT_BLOCK - 8;
    }
    y0 = add_super_block(y0, i0, f.d<G0>(w), da), y1 = add_super_block(y1, i1, f.d<G1>(w), da);
    y2 = add_super_block(y2, i2, f.d<G2>(w), da), y3 = add_super_block(y3, i3, f.d<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A half-run's 16 products for each row of group G, with their scale, onto i. */
// @ts-ignore: decorator
@inline
function group<D, G>(i: v128, q: usize, a: usize, x0: v128, x1: v128, x2: v128, x3: v128, start: v128, sc: v128, m: v128, top: v128): v128 {
  const v0 = v128.load(q, offsetof<G>()), v1 = v128.load(q, offsetof<G>() + 64), v2 = v128.load(q, offsetof<G>() + 128);
  let s = onto<D>(start, x0, a, v128.and(v0, m));
  s = onto<D>(s, x1, a + QUAD, v128.and(v1, m));
  s = onto<D>(s, x2, a + 2 * QUAD, v128.and(v2, m));
  const v = v128.or(v128.or(i16x8.shr_u(v128.and(v0, top), 6), i16x8.shr_u(v128.and(v1, top), 4)), i16x8.shr_u(v128.and(v2, top), 2));
  s = onto<D>(s, x3, a + 3 * QUAD, v);
  return i32x4.add(i, changetype<D>(0).scaled(s, scale<Q6_K, G>(sc)));
}
