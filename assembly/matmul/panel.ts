/**
 * Panels: packed weights unpacked once for all columns of the GEMM. KC weights of 16 rows become
 * two panels of 8 rows (two groups side by side), block after block and, in a block, sub-block
 * after sub-block.
 *
 *   block of 32:   | codes: 8 steps of 4 k, 32 bytes a step | d (2 x 16) | dmin (2 x 16) |
 *   super-block:   | 8 sub-blocks: codes, integer scales |
 *                  | minima, i16 (4 or, with s16, 8 times 2 x 16) | d (2 x 16) | dmin (2 x 16) |
 *
 * In the simd build, and for 8-bit codes as i16, codes are 16 steps of 2 k. With s16, each half's
 * codes are followed by that half's scales. Two i16 minima belong to two sub-blocks, with s16 to
 * the halves of one. Only formats with minima have dmin and minima.
 *
 * A format with f32 scales has these in place of the integer ones, and no d. 8-bit codes as i16 are
 * already multiplied by the scales (level * sc fits i16).
 */
import { store_quad } from './dot';
import { SIGNED_CODES, nibble_mask, store_signed_quad } from './dot_signed';
import * as fmt from './format/format';
import { G0, G1, G2, G3 } from './format/group';
import { minima_of_group } from './format/k_scales';
import { minima_of_halves } from './format/s16';
import { PANEL } from './panel_room';
import { CODES, factor_bytes, minima_vectors, panel_bytes, scaled_codes, sub_bytes } from './panel_size';

/**
 * Unpacks n blocks of 16 packed rows at w to two panels: one of the first 8 rows and, PANEL() bytes
 * after it, one of the other 8.
 */
export function unpack_blocks<F>(w: usize, n: i32, panel: usize): void {
  if (panel_bytes<F>() > PANEL()) ERROR('PANEL must have room for this format, too');
  if (!fmt.eight_bits<F>() && !fmt.fits_i16<F>())
    ERROR('i16 has no room for the sums of such codes: give them as signed ones of 8 bits (dot_signed.ts)');
  for (; n > 0; n--) {
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      // A loop, since groups differ in addresses only. The rest is unrolled four times (code size).
      for (let g: usize = 0; g < 4; g++) unpack_codes<F>(w, sub, g << 4, panel + (g & 1) * 16 + (g >> 1) * PANEL());
      if (fmt.super_block<F>()) {
        const sc = fmt.sc<F>(w, fmt.s16<F>() ? sub << 1 : sub);
        const tc = fmt.s16<F>() ? fmt.sc<F>(w, (sub << 1) | 1) : sc;
        unpack_scales<F, G0>(sc, tc, panel);
        unpack_scales<F, G1>(sc, tc, panel + 16);
        unpack_scales<F, G2>(sc, tc, panel + PANEL());
        unpack_scales<F, G3>(sc, tc, panel + PANEL() + 16);
      }
      panel += sub_bytes<F>();
    }
    for (let i = 0; minima_vectors<F>() > 0 && i < minima_vectors<F>(); i++) {
      const v = fmt.mn<F>(w, i << 1);
      const z = fmt.mn<F>(w, (i << 1) | 1);
      v128.store(panel, fmt.s16<F>() ? minima_of_halves<G0>(v, z) : minima_of_group<G0>(v));
      v128.store(panel, fmt.s16<F>() ? minima_of_halves<G1>(v, z) : minima_of_group<G1>(v), 16);
      v128.store(panel + PANEL(), fmt.s16<F>() ? minima_of_halves<G2>(v, z) : minima_of_group<G2>(z));
      v128.store(panel + PANEL(), fmt.s16<F>() ? minima_of_halves<G3>(v, z) : minima_of_group<G3>(z), 16);
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

/**
 * Unpacks the codes of one group's sub-block to p. group: 16 times its number, its offset in a
 * quad.
 */
@inline
function unpack_codes<F>(w: usize, sub: i32, group: usize, p: usize): void {
  const f = changetype<F>(0);
  let q = f.codes_at(w, sub) + group;
  if (fmt.s16<F>()) {
    const r = p + (CODES >> 1) + 32;
    store_quad(p, 0, fmt.half_codes<F, G0>(q, 0, 0));
    store_quad(p, 1, fmt.half_codes<F, G0>(q, 0, 1));
    store_quad(p, 2, fmt.half_codes<F, G0>(q, 0, 2));
    store_quad(p, 3, fmt.half_codes<F, G0>(q, 0, 3));
    store_quad(r, 0, fmt.half_codes<F, G0>(q, 1, 0));
    store_quad(r, 1, fmt.half_codes<F, G0>(q, 1, 1));
    store_quad(r, 2, fmt.half_codes<F, G0>(q, 1, 2));
    store_quad(r, 3, fmt.half_codes<F, G0>(q, 1, 3));
    return;
  }
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const h = fmt.rests_at<F>(w, sub) + group;
  const m3 = nibble_mask();
  for (let t = 0; t < 4; t++) {
    const v = fmt.load_first<F, G0>(q, t);
    const b = fmt.rests<F, G0>(h, t);
    const first = fmt.first<F>(v, m, m2);
    const second = fmt.second<F>(fmt.load_second<F, G0>(q, t, v), b, m, m2);
    if (fmt.eight_bits<F>()) {
      store_signed_quad(p, t, first, m3);
      store_signed_quad(p, t + 4, second, m3);
    } else {
      store_quad(p, t, first);
      store_quad(p, t + 4, second);
    }
    q += fmt.quad_bytes<F>();
  }
}

/**
 * Stores the integer scales of group G in a sub-block. sc: its scales; with s16 those of its first
 * half, and tc those of its second.
 */
@inline
function unpack_scales<F, G>(sc: v128, tc: v128, panel: usize): void {
  const x = fmt.scale<F, G>(sc);
  if (scaled_codes<F>()) {
    const twice = i32x4.add(v128.and(x, i32x4.splat(0xffff)), i32x4.shl(x, 16));
    for (const end = panel + SIGNED_CODES; panel != end; panel += 32) v128.store(panel, i16x8.mul(v128.load(panel), twice));
  } else if (fmt.s16<F>()) {
    v128.store(panel + (CODES >> 1), x);
    v128.store(panel + CODES + 32, fmt.scale<F, G>(tc));
  } else {
    v128.store(panel + (fmt.eight_bits<F>() ? SIGNED_CODES : CODES), x);
  }
}

/** Stores d and dmin of group G in a block. */
@inline
function unpack_factors<F, G>(w: usize, p: usize): void {
  if (fmt.f32_scales<F>()) return;
  v128.store(p, fmt.block_d<F, G>(w));
  if (fmt.has_min<F>()) v128.store(p, fmt.block_dmin<F, G>(w), 32);
}
