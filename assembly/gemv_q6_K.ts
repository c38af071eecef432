/**
 * gemv.ts for q6_K: one activation row times 16 packed rows, half-run after half-run. The activations of 16 weights stay in registers for all
 * four groups, so a vector of codes is loaded once, for its own quad and for its bits of quad 3: on x64 a quarter fewer instructions than a
 * loop over quads, 32 GMAC/s instead of 30 (Zen 4, Node 24).
 *
 * A super-block's integer sums lie in memory: V8 moves no load over a store, and without the stores Node 20 and 22 load the codes of all groups
 * first and spill them (27 and 28 GMAC/s, and 32). The same integer sums and f32 operations as gemm.ts.
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_QUANTS } from './act';
import { ACT_QUANT } from './dot';
import { add_block } from './packed/format';
import { G0, G1, G2, G3, store_sums } from './packed/group';
import { Q6_K } from './packed/q6_K';
import { bits_0xc0, half_scale, onto } from './packed/w16';

/** Bytes of scratch: a group's integer sums. */
export const SUMS: usize = 64;

/** Bytes of 4 quants. */
const QUAD: usize = 4 * ACT_QUANT;

/** y[0..15] = 16 packed rows at w . the activation row at a; n super-blocks, dots of flavour D. sums: SUMS bytes. */
export function gemv_16x1_q6_K<D>(w: usize, n: i32, a: usize, y: usize, sums: usize): void {
  const f = changetype<Q6_K>(0), m = f.mask(), top = bits_0xc0(), zero = i32x4.splat(0);
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, ACT_D);
    let q = f.quads(w, 0), scales = f.scales(w, 0), pairs = a + ACT_PAIRS0;
    store_sums(sums, zero, zero, zero, zero);
    for (let i = 0; i < 16; i++) {
      const x0 = v128.load32_splat(a), x1 = v128.load32_splat(a, QUAD), x2 = v128.load32_splat(a, 2 * QUAD), x3 = v128.load32_splat(a, 3 * QUAD);
      const start = changetype<D>(0).init(f.offset(v128.load32_splat(pairs))), sc = v128.load8x8_s(scales), tc = v128.load8x8_s(scales, 8);
      group<D, G0>(sums, q, a, x0, x1, x2, x3, start, sc, m, top);
      group<D, G1>(sums, q, a, x0, x1, x2, x3, start, sc, m, top);
      group<D, G2>(sums, q, a, x0, x1, x2, x3, start, tc, m, top);
      group<D, G3>(sums, q, a, x0, x1, x2, x3, start, tc, m, top);
      q += 192;
      scales += 16;
      a += 4 * QUAD;
      pairs += 4;
      if ((i & 1) != 0) a += ACT_BLOCK - ACT_QUANTS, pairs += ACT_BLOCK - 8;
    }
    y0 = add_block<Q6_K>(y0, v128.load(sums, 0), f.d<G0>(w), da), y1 = add_block<Q6_K>(y1, v128.load(sums, 16), f.d<G1>(w), da);
    y2 = add_block<Q6_K>(y2, v128.load(sums, 32), f.d<G2>(w), da), y3 = add_block<Q6_K>(y3, v128.load(sums, 48), f.d<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A half-run's 16 products for each row of group G, with their scale, onto its sums. */
// @ts-ignore: decorator
@inline
function group<D, G>(sums: usize, q: usize, a: usize, x0: v128, x1: v128, x2: v128, x3: v128, start: v128, sc: v128, m: v128, top: v128): void {
  const v0 = v128.load(q, offsetof<G>()), v1 = v128.load(q, offsetof<G>() + 64), v2 = v128.load(q, offsetof<G>() + 128);
  let s = onto<D>(start, x0, a, v128.and(v0, m));
  s = onto<D>(s, x1, a + QUAD, v128.and(v1, m));
  s = onto<D>(s, x2, a + 2 * QUAD, v128.and(v2, m));
  const v = v128.or(v128.or(i16x8.shr_u(v128.and(v0, top), 6), i16x8.shr_u(v128.and(v1, top), 4)), i16x8.shr_u(v128.and(v2, top), 2));
  s = onto<D>(s, x3, a + 3 * QUAD, v);
  v128.store(sums, i32x4.add(v128.load(sums, offsetof<G>()), changetype<D>(0).scaled(s, half_scale<G>(sc))), offsetof<G>());
}
