/**
 * What the GEMM makes of packed weights once for all columns: 16 rows x KC weights as two panels of 8 rows, runs of 32 weights in order.
 *
 *   run: | codes (8 steps of 4 k, 2 groups of rows alternating; words: 16 steps of 2 k) | d (2 x 16) | minima |
 *   with 16-wide scales: | codes of k 0..15 | their integer scales (2 x 16) | codes of k 16..31 | scales | d | minima of both halves, dmin |
 */
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3 } from './packed/group';
import { code, group_mins, group_scale } from './packed/w16';
import { CODES_WIDE, mask_wide, put_wide } from './packed/wide';

/** Weights of a row unpacked at a time. */
export const KC: i32 = 512;

/** Codes of 32 weights of 8 rows (8-bit codes: CODES_WIDE). */
export const CODES: usize = 256 * ACT_QUANT;
/** At most: codes, d, two integer scales, two minima. */
export const PANEL: usize = <usize>(KC >> 5) * (CODES + 256 + 32);
/** Bytes of a run's minima in the panel. */
// @ts-ignore: decorator
@inline
export function mins<F>(): usize {
  return fmt.has_min<F>() ? fmt.w16<F>() ? 64 : 32 : 0;
}

/** n blocks of 16 packed rows at w to the two halves of a panel. */
export function unpack<F, D>(w: usize, n: i32, panel: usize): void {
  for (; n > 0; n--) {
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      // A loop over the groups where only addresses differ; four copies of the rest (code size).
      for (let g: usize = 0; g < 4; g++) unpack_codes<F, D>(w, sub, g << 4, panel + (g & 1) * 16 + (g >> 1) * PANEL);
      const sc = fmt.sc<F>(w, fmt.w16<F>() ? sub << 1 : sub), mn = fmt.mn<F>(w, fmt.w16<F>() ? sub << 1 : sub);
      unpack_factors<F, G0>(w, sub, sc, mn, panel);
      unpack_factors<F, G1>(w, sub, sc, mn, panel + 16);
      unpack_factors<F, G2>(w, sub, sc, mn, panel + PANEL);
      unpack_factors<F, G3>(w, sub, sc, mn, panel + PANEL + 16);
      panel += run_bytes<F>();
    }
    w += changetype<F>(0).bytes();
  }
}

/** Bytes of a run in a panel. */
// @ts-ignore: decorator
@inline
function run_bytes<F>(): usize {
  return (fmt.wide<F>() ? CODES_WIDE : CODES) + (fmt.w16<F>() ? 96 : 32) + mins<F>();
}

/** Codes of the group `group` bytes into each quad. */
// @ts-ignore: decorator
@inline
function unpack_codes<F, D>(w: usize, sub: i32, group: usize, p: usize): void {
  const dot = changetype<D>(0), f = changetype<F>(0);
  let q = f.quads(w, sub) + group;
  if (fmt.w16<F>()) {
    const r = p + (CODES >> 1) + 32;
    dot.put(p, 0, code<F, G0>(q, 0, 0)), dot.put(p, 1, code<F, G0>(q, 0, 1)), dot.put(p, 2, code<F, G0>(q, 0, 2)), dot.put(p, 3, code<F, G0>(q, 0, 3));
    dot.put(r, 0, code<F, G0>(q, 1, 0)), dot.put(r, 1, code<F, G0>(q, 1, 1)), dot.put(r, 2, code<F, G0>(q, 1, 2)), dot.put(r, 3, code<F, G0>(q, 1, 3));
    return;
  }
  const m = fmt.mask<F>(), m2 = fmt.mask2<F>(), h = fmt.high<F>(w, sub) + group, m3 = mask_wide();
  for (let t = 0; t < 4; t++) {
    const v = fmt.load_lo<F, G0>(q), b = fmt.bits<F, G0>(h, t);
    const lo = fmt.lo<F>(v, b, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G0>(q, v), b, m, m2);
    if (fmt.wide<F>()) {
      put_wide(p, t, lo, m3);
      put_wide(p, t + 4, hi, m3);
    } else {
      dot.put(p, t, lo);
      dot.put(p, t + 4, hi);
    }
    q += fmt.quad_bytes<F>();
  }
}

/** Scales and minima of group G; sc, mn: of the run, with w16 of its first half. */
// @ts-ignore: decorator
@inline
function unpack_factors<F, G>(w: usize, sub: i32, sc: v128, mn: v128, panel: usize): void {
  const d = changetype<F>(0).d<G>(w), p = panel + run_bytes<F>() - mins<F>() - 32;
  if (fmt.w16<F>()) {
    v128.store(panel + (CODES >> 1), group_scale<G>(sc));
    v128.store(panel + CODES + 32, group_scale<G>(fmt.sc<F>(w, sub << 1 | 1)));
    v128.store(p, d);
    if (fmt.has_min<F>()) {
      v128.store(p, group_mins<G>(mn, fmt.mn<F>(w, sub << 1 | 1)), 32);
      v128.store(p, fmt.dmin<F, G>(w), 64);
    }
  } else {
    v128.store(p, fmt.factor<F, G>(d, sc));
    if (fmt.has_min<F>()) v128.store(p, fmt.factor<F, G>(fmt.dmin<F, G>(w), mn), 32);
  }
}
