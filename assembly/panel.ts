/**
 * What the GEMM makes of packed weights once for all columns: 16 rows x KC weights as two panels of 8 rows, runs of 32 weights in order.
 *
 *   run: | codes (8 steps of 4 k, 2 groups of rows alternating; words: 16 steps of 2 k) | d (2 x 16) | minima (2 x 16) |
 *
 * In super-blocks a run has integer scales in d's place; with 16-wide scales each half of its codes has them. Behind the eighth run:
 *
 *   | minima of two runs, or with 16-wide scales of the halves of a run, as i16 (4 or 8 times 2 x 16) | d (2 x 16) | dmin (2 x 16) |
 *
 * 8-bit codes as words have their scales multiplied in already (level * sc fits i16).
 */
import { ACT_QUANT } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3 } from './packed/group';
import { IQ4_NL } from './packed/iq4_nl';
import { IQ4_XS } from './packed/iq4_xs';
import { k_min } from './packed/k_scales';
import { MXFP4 } from './packed/mxfp4';
import { Q2_K } from './packed/q2_K';
import { Q3_K } from './packed/q3_K';
import { Q4_0 } from './packed/q4_0';
import { Q4_1 } from './packed/q4_1';
import { Q4_K } from './packed/q4_K';
import { Q5_0 } from './packed/q5_0';
import { Q5_1 } from './packed/q5_1';
import { Q5_K } from './packed/q5_K';
import { Q6_K } from './packed/q6_K';
import { Q8_0 } from './packed/q8_0';
import { code, group_mins } from './packed/w16';
import { CODES_WIDE, WORDS, mask_wide, put_wide } from './packed/wide';

/** Weights of a row unpacked at a time. */
export const KC: i32 = 512;

/** Codes of 32 weights of 8 rows (8-bit codes: CODES_WIDE). */
export const CODES: usize = 256 * ACT_QUANT;

/** The larger one, where it must be known at compile time: of max() the compiler does not know it. */
// @ts-ignore: decorator
@inline
export function most(a: usize, b: usize): usize { return a > b ? a : b; }

/** Bytes between the halves of a panel: the most that any format needs. One that needs more does not compile (`unpack`). */
// @ts-ignore: decorator
@inline
export function PANEL(): usize {
  const nibbles = most(most(panel_bytes<Q4_0>(), panel_bytes<Q4_1>()), most(panel_bytes<Q5_0>(), most(panel_bytes<Q5_1>(), panel_bytes<MXFP4>())));
  const k = most(most(panel_bytes<Q2_K>(), panel_bytes<Q3_K>()), most(panel_bytes<Q4_K>(), most(panel_bytes<Q5_K>(), panel_bytes<Q6_K>())));
  return most(most(nibbles, k), most(panel_bytes<Q8_0>(), most(panel_bytes<IQ4_NL>(), panel_bytes<IQ4_XS>())));
}

/** Bytes of half a panel, of 8 rows: all that unpack steps over. */
// @ts-ignore: decorator
@inline
function panel_bytes<F>(): usize {
  return <usize>(KC / 32 / fmt.subs<F>()) * (<usize>fmt.subs<F>() * run_bytes<F>() + minima_bytes<F>() + factor_bytes<F>());
}

/** Whether 8-bit codes are words with their scales in them. */
// @ts-ignore: decorator
@inline
export function scaled_words<F>(): bool {
  return WORDS && fmt.wide<F>() && fmt.super_block<F>();
}

/** Vectors of a group's minima in a super-block. */
// @ts-ignore: decorator
@inline
function mins<F>(): i32 {
  return fmt.super_block<F>() && fmt.has_min<F>() ? fmt.w16<F>() ? 8 : 4 : 0;
}

/** Bytes of both groups' minima. */
// @ts-ignore: decorator
@inline
export function minima_bytes<F>(): usize {
  return <usize>mins<F>() << 5;
}

/** Bytes of both groups' d and dmin. */
// @ts-ignore: decorator
@inline
export function factor_bytes<F>(): usize {
  return fmt.has_min<F>() ? 64 : 32;
}

/** n blocks of 16 packed rows at w to the two halves of a panel. */
export function unpack<F, D>(w: usize, n: i32, panel: usize): void {
  if (panel_bytes<F>() > PANEL()) ERROR('PANEL must have room for this format, too');
  for (; n > 0; n--) {
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      // A loop over the groups where only addresses differ; four copies of the rest (code size).
      for (let g: usize = 0; g < 4; g++) unpack_codes<F, D>(w, sub, g << 4, panel + (g & 1) * 16 + (g >> 1) * PANEL());
      if (fmt.super_block<F>()) {
        const sc = fmt.sc<F>(w, fmt.w16<F>() ? sub << 1 : sub), tc = fmt.w16<F>() ? fmt.sc<F>(w, sub << 1 | 1) : sc;
        unpack_scales<F, G0>(sc, tc, panel);
        unpack_scales<F, G1>(sc, tc, panel + 16);
        unpack_scales<F, G2>(sc, tc, panel + PANEL());
        unpack_scales<F, G3>(sc, tc, panel + PANEL() + 16);
      }
      panel += run_bytes<F>();
    }
    for (let i = 0; mins<F>() > 0 && i < mins<F>(); i++) {
      const v = fmt.mn<F>(w, i << 1), z = fmt.mn<F>(w, i << 1 | 1);
      v128.store(panel, fmt.w16<F>() ? group_mins<G0>(v, z) : k_min<G0>(v));
      v128.store(panel, fmt.w16<F>() ? group_mins<G1>(v, z) : k_min<G1>(v), 16);
      v128.store(panel + PANEL(), fmt.w16<F>() ? group_mins<G2>(v, z) : k_min<G2>(z));
      v128.store(panel + PANEL(), fmt.w16<F>() ? group_mins<G3>(v, z) : k_min<G3>(z), 16);
      panel += 32;
    }
    unpack_factors<F, G0>(w, panel);
    unpack_factors<F, G1>(w, panel + 16);
    unpack_factors<F, G2>(w, panel + PANEL());
    unpack_factors<F, G3>(w, panel + PANEL() + 16);
    panel += factor_bytes<F>();
    w += changetype<F>(0).bytes();
  }
}

/** Bytes of a run's codes and integer scales in a panel. */
// @ts-ignore: decorator
@inline
function run_bytes<F>(): usize {
  return (fmt.wide<F>() ? CODES_WIDE : CODES) + (!fmt.super_block<F>() || scaled_words<F>() ? 0 : fmt.w16<F>() ? 64 : 32);
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

/** Integer scales of group G in a run: sc, with w16 of its first half, and tc of its second. */
// @ts-ignore: decorator
@inline
function unpack_scales<F, G>(sc: v128, tc: v128, panel: usize): void {
  const x = fmt.scale<F, G>(sc);
  if (scaled_words<F>()) {
    const words = i32x4.add(v128.and(x, i32x4.splat(0xffff)), i32x4.shl(x, 16));
    for (const end = panel + CODES_WIDE; panel != end; panel += 32) v128.store(panel, i16x8.mul(v128.load(panel), words));
  } else if (fmt.w16<F>()) {
    v128.store(panel + (CODES >> 1), x);
    v128.store(panel + CODES + 32, fmt.scale<F, G>(tc));
  } else {
    v128.store(panel + (fmt.wide<F>() ? CODES_WIDE : CODES), x);
  }
}

/** d and dmin of group G in a block. */
// @ts-ignore: decorator
@inline
function unpack_factors<F, G>(w: usize, p: usize): void {
  v128.store(p, fmt.super_block<F>() ? fmt.block_d<F, G>(w) : changetype<F>(0).d<G>(w));
  if (fmt.has_min<F>()) v128.store(p, fmt.super_block<F>() ? fmt.block_dmin<F, G>(w) : fmt.dmin<F, G>(w), 32);
}
