// Generated from assembly/templates/gemm_nibbles.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * gemm_8x4_i16.ts for dotadd builds: codes of 8 bits as two nibbles, two dots for 16
 * products.
 */
import { mac } from './dot';
import { SIGNED_CODES } from './dot_signed';
import { add_block, add_scaled_i32 } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, splat } from './format/group';
import { COLS_REST, cols_sub, lane_sums_after, scales } from './tile_8x4';

/** As gemm_8x4: two columns and then the next two, so that the sums stay in registers. */
@inline
export function gemm_8x4_nibbles<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (!fmt.eight_bits<F>() || fmt.s16<F>() || fmt.has_min<F>()) ERROR('for 8-bit codes without minima, with a scale for 32 of them');
  two_columns<F>(w, a + 0, acc + 0 * ACC, n);
  two_columns<F>(w, a + 8, acc + 2 * ACC, n);
}

/**
 * Computes two columns: sums of low nibbles s and of high nibbles u. A step in the panel is 64
 * bytes: low nibbles of both groups, then high ones.
 */
function two_columns<F>(w: usize, a: usize, acc: usize, n: i32): void {
  const zero = i32x4.splat(0);
  for (; n > 0; n--) {
    let i00 = zero;
    let i10 = zero;
    let i01 = zero;
    let i11 = zero;
    let left = fmt.subs<F>();
    do {
      let s00 = zero;
      let s10 = zero;
      let s01 = zero;
      let s11 = zero;
      let u00 = zero;
      let u10 = zero;
      let u01 = zero;
      let u11 = zero;
      for (const end = w + 1 * SIGNED_CODES; w != end; w += 64) {
        const w0 = v128.load(w, 0);
        const w1 = v128.load(w, 16);
        const h0 = v128.load(w, 32);
        const h1 = v128.load(w, 48);
        let x: v128;
        x = v128.load32_splat(a, 0);
        s00 = mac(s00, x, w0);
        s10 = mac(s10, x, w1);
        u00 = mac(u00, x, h0);
        u10 = mac(u10, x, h1);
        x = v128.load32_splat(a, 4);
        s01 = mac(s01, x, w0);
        s11 = mac(s11, x, w1);
        u01 = mac(u01, x, h0);
        u11 = mac(u11, x, h1);
        a += 16;
      }
      // Corrects for the 128 added to every code (dot_signed.ts). Lane sums are negative, so this
      // is added.
      const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(lane_sums_after(a)), 7);
      const b0 = splat<G0>(back);
      const b1 = splat<G1>(back);
      const sc0 = fmt.super_block<F>() ? v128.load(w, 0) : zero;
      const sc1 = fmt.super_block<F>() ? v128.load(w, 16) : zero;
      i00 = add_scaled_i32<F>(i00, joined(s00, u00, b0), sc0);
      i10 = add_scaled_i32<F>(i10, joined(s10, u10, b0), sc1);
      i01 = add_scaled_i32<F>(i01, joined(s01, u01, b1), sc0);
      i11 = add_scaled_i32<F>(i11, joined(s11, u11, b1), sc1);
      if (fmt.super_block<F>()) w += 32;
      a += COLS_REST;
    } while (fmt.super_block<F>() && --left > 0);
    const d0 = v128.load(w, 0);
    const d1 = v128.load(w, 16);
    const da = scales(fmt.super_block<F>() ? a - cols_sub<F>() - COLS_REST : a - COLS_REST);
    const e0 = splat<G0>(da);
    const y00 = add_block<F>(v128.load(acc, 0 * ACC + 0), i00, d0, e0);
    const y10 = add_block<F>(v128.load(acc, 0 * ACC + 16), i10, d1, e0);
    v128.store(acc, y00, 0 * ACC + 0);
    v128.store(acc, y10, 0 * ACC + 16);
    const e1 = splat<G1>(da);
    const y01 = add_block<F>(v128.load(acc, 1 * ACC + 0), i01, d0, e1);
    const y11 = add_block<F>(v128.load(acc, 1 * ACC + 16), i11, d1, e1);
    v128.store(acc, y01, 1 * ACC + 0);
    v128.store(acc, y11, 1 * ACC + 16);
    w += 32;
  }
}

/** A sub-block's sums: low nibbles + 16 * high nibbles + correction. */
@inline
function joined(low: v128, high: v128, back: v128): v128 {
  return i32x4.add(i32x4.add(low, i32x4.shl(high, 4)), back);
}
