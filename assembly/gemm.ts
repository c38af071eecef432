/**
 * Prompts spend their time here: start reading here. Many activation rows times packed weights of any block format.
 *
 * Sixteen rows x KC weights are unpacked once into a panel (L1) of plain 7-bit codes and f32 scales, then every four columns run over it:
 * what a format costs to unpack is shared by all columns, and one inner loop serves every format. gemm_8x4 is that loop.
 *
 *   for 64 columns, 64 rows   their f32 sums stay in L1
 *     for KC weights          columns side by side in fours (act.ts lays them out, once for all products), in L2
 *       for 16 rows           panel: 2 halves of 8 rows
 *         for 4 columns       their quants stay in L1 for both halves
 *           gemm_8x4          8 rows x 4 columns
 *
 * On x64 the loop is bound by the six operations a cycle that a core takes in, so what counts is how many there are: of 25 for 128 products,
 * 16 multiply and add. With a pointer for each column it had 28, and 50 GMAC/s where it now has 58 (Node 24; Node 20: 44 and 52; turbo: 66 and 85).
 */
import { COLS, in_fours } from './act';
import { NARROW_SCRATCH, gemm_16xn } from './gemm_narrow';
import { column, super_block_columns } from './gemm_columns';
import { gemm_8x4_i16, gemm_8x4_nibbles } from './gemm_wide';
import { gemv_16x1 } from './gemv';
import { gemv_16x1_q2_K } from './gemv_q2_K';
import { SUMS, gemv_16x1_q6_K } from './gemv_q6_K';
import { gemv_16x1_s16 } from './gemv_w16';
import { gemv_16x1_signs } from './gemv_wide';
import { GEMM_8X4, GEMM_8X4_I16, GEMV_16X1_Q2_K, GEMV_16X1_Q6_K, GEMV_16X1_S16, GEMV_16X1_SIGNS, column_loop, is_narrow, tile_loop } from './loops';
import * as fmt from './packed/format';
import { ACC, G0, G1, G2, G3, ROWS } from './packed/group';
import { CODES, KC, PANEL, factor_bytes, minima_bytes, most, unpack } from './panel';
import { NEXT_HALF, QUAD_REST, corrected, correction, quad_run, quant_sums, splat, start } from './quads';
import { held_ones } from './simd';

/** Columns, and rows, whose sums are kept at a time. */
const NC: i32 = 64;
const MC: i32 = 64;

/** Scratch: f32 sums, then panels; or what the ways for few columns want. */
const PANELS: usize = <usize>NC * ACC * (MC / ROWS);

/** A packed group's 16 outputs where only some of them exist. */
// @ts-ignore: decorator
@inline
function SPARE(): usize { return most(PANELS + 2 * PANEL(), most(NARROW_SCRATCH, SUMS)); }

/** Bytes of scratch. */
// @ts-ignore: decorator
@inline
export function gemm_scratch(): usize { return SPARE() + ACC; }

/**
 * Sums of 8 rows x 4 columns go on over n blocks. Eight i16 sums stay in registers; the f32 sums live in memory (L1).
 * The order of a block in the panel: panel.ts.
 */
function gemm_8x4<F, D>(w: usize, a: usize, acc: usize, n: i32): void {
  const dot = changetype<D>(0), zero = i32x4.splat(0), ones = held_ones();
  for (; n > 0; n--) {
    let i00 = zero, i10 = zero, i01 = zero, i11 = zero, i02 = zero, i12 = zero, i03 = zero, i13 = zero;
    let halves = fmt.w16<F>() ? 2 * fmt.subs<F>() : fmt.subs<F>();
    do {
      const first = start<F, D>(fmt.w16<F>() && (halves & 1) != 0 ? a + NEXT_HALF : a);
      let s00 = splat<G0>(first), s10 = s00, s01 = splat<G1>(first), s11 = s01;
      let s02 = splat<G2>(first), s12 = s02, s03 = splat<G3>(first), s13 = s03;
      // Not unrolled: V8 makes an address of every splat's offset, and keeps it for the next round only in loops this small (52 GMAC/s by two, 44 by eight).
      for (const end = w + (fmt.w16<F>() ? CODES >> 1 : CODES); w != end; w += 32) {
        const w0 = v128.load(w), w1 = v128.load(w, 16);
        let x = v128.load32_splat(a);
        s00 = dot.mac(s00, x, w0);
        s10 = dot.mac(s10, x, w1);
        x = v128.load32_splat(a, 4);
        s01 = dot.mac(s01, x, w0);
        s11 = dot.mac(s11, x, w1);
        x = v128.load32_splat(a, 8);
        s02 = dot.mac(s02, x, w0);
        s12 = dot.mac(s12, x, w1);
        x = v128.load32_splat(a, 12);
        s03 = dot.mac(s03, x, w0);
        s13 = dot.mac(s13, x, w1);
        a += 16;
      }
      if (fmt.super_block<F>()) {
        const sc0 = v128.load(w), sc1 = v128.load(w, 16);
        i00 = add_scaled<F, D, G0>(i00, s00, first, sc0), i10 = add_scaled<F, D, G0>(i10, s10, first, sc1);
        i01 = add_scaled<F, D, G1>(i01, s01, first, sc0), i11 = add_scaled<F, D, G1>(i11, s11, first, sc1);
        i02 = add_scaled<F, D, G2>(i02, s02, first, sc0), i12 = add_scaled<F, D, G2>(i12, s12, first, sc1);
        i03 = add_scaled<F, D, G3>(i03, s03, first, sc0), i13 = add_scaled<F, D, G3>(i13, s13, first, sc1);
        w += 32;
      } else {
        i00 = dot.sum(s00, ones), i10 = dot.sum(s10, ones), i01 = dot.sum(s01, ones), i11 = dot.sum(s11, ones);
        i02 = dot.sum(s02, ones), i12 = dot.sum(s12, ones), i03 = dot.sum(s03, ones), i13 = dot.sum(s13, ones);
      }
      if (!fmt.w16<F>() || (halves & 1) != 0) a += QUAD_REST;
    } while (fmt.super_block<F>() && --halves > 0);
    if (fmt.super_block<F>()) {
      w += minima_bytes<F>();
      super_block_columns<F>(w, a, acc, i00, i10, i01, i11, i02, i12, i03, i13);
      w += factor_bytes<F>();
      continue;
    }
    const rest = a - QUAD_REST, d0 = v128.load(w), d1 = v128.load(w, 16), da = v128.load(rest), back = correction<F>(rest);
    i00 = corrected<F, G0>(i00, back), i10 = corrected<F, G0>(i10, back), i01 = corrected<F, G1>(i01, back), i11 = corrected<F, G1>(i11, back);
    i02 = corrected<F, G2>(i02, back), i12 = corrected<F, G2>(i12, back), i03 = corrected<F, G3>(i03, back), i13 = corrected<F, G3>(i13, back);
    const m0 = fmt.has_min<F>() ? v128.load(w, 32) : zero, m1 = fmt.has_min<F>() ? v128.load(w, 48) : zero, sum = quant_sums<F>(rest);
    const s0 = splat<G0>(sum), s1 = splat<G1>(sum), s2 = splat<G2>(sum), s3 = splat<G3>(sum);
    column<F, G0>(acc, splat<G0>(da), i00, d0, s0, m0, i10, d1, s0, m1);
    column<F, G1>(acc, splat<G1>(da), i01, d0, s1, m0, i11, d1, s1, m1);
    column<F, G2>(acc, splat<G2>(da), i02, d0, s2, m0, i12, d1, s2, m1);
    column<F, G3>(acc, splat<G3>(da), i03, d0, s3, m0, i13, d1, s3, m1);
    w += factor_bytes<F>();
  }
}

/** Sums s of column C times their scales onto i; formats that say `biased` get back what the sums began at. */
// @ts-ignore: decorator
@inline
function add_scaled<F, D, C>(i: v128, s: v128, first: v128, sc: v128): v128 {
  const dot = changetype<D>(0);
  i = i32x4.add(i, dot.scaled(s, sc));
  return fmt.biased<F>() ? i32x4.sub(i, dot.scaled(splat<C>(first), sc)) : i;
}

/** Four columns over n blocks of half a panel. */
// @ts-ignore: decorator
@inline
function columns<F, D>(w: usize, a: usize, acc: usize, n: i32): void {
  if (tile_loop<F>() == GEMM_8X4) gemm_8x4<F, D>(w, a, acc, n);
  else if (tile_loop<F>() == GEMM_8X4_I16) gemm_8x4_i16<F>(w, a, acc, n);
  else gemm_8x4_nibbles<F>(w, a, acc, n);
}

/** Rows [row0, row1) x ncols columns; contracts in mul_mat_packed. */
export function mul_mat_of<F, D>(w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / (fmt.subs<F>() << 5), kb = KC / (fmt.subs<F>() << 5);
  if (is_narrow<F>(ncols)) {
    for (let row = row0; row < row1; row += ROWS) {
      memory.fill(scratch, 0, <usize>ncols * ACC);
      gemm_16xn<F, D>(w + <usize>(row / ROWS) * blocks * f.bytes(), blocks, act, act_stride, ncols, scratch, scratch + <usize>ncols * ACC);
      for (let c = 0; c < ncols; c++) put(dst + <usize>c * dst_stride, row, row1, scratch + <usize>c * ACC);
    }
    return;
  }
  const tiled = in_fours(fmt.act_type<F>(), ncols);
  for (let c0 = 0; c0 < tiled; c0 += NC) {
    const nc = min(NC, tiled - c0), sums = (<usize>nc + COLS - 1 & -COLS) * ACC;
    for (let m0 = row0; m0 < row1; m0 += MC) {
      const m1 = min(m0 + MC, row1);
      memory.fill(scratch, 0, <usize>((m1 - m0 + ROWS - 1) / ROWS) * sums);
      for (let b = 0; b < blocks; b += kb) {
        const nb = min(kb, blocks - b), quads = act + <usize>c0 * act_stride + <usize>(b * fmt.subs<F>()) * quad_run<F>();
        for (let row = m0, acc = scratch; row < m1; row += ROWS) {
          unpack<F, D>(w + (<usize>(row / ROWS) * blocks + b) * f.bytes(), nb, scratch + PANELS);
          for (let c = 0, p = quads; c < nc; c += <i32>COLS, p += COLS * act_stride, acc += COLS * ACC) {
            columns<F, D>(scratch + PANELS, p, acc, nb);
            columns<F, D>(scratch + PANELS + PANEL(), p, acc + 32, nb);
          }
        }
      }
      for (let row = m0, acc = scratch; row < m1; row += ROWS, acc += sums) {
        for (let c = 0; c < nc; c++) put(dst + <usize>(c0 + c) * dst_stride, row, row1, acc + <usize>c * ACC);
      }
    }
  }
  if (tiled == ncols) return;
  for (let row = row0; row < row1; row += ROWS) {
    const rows = w + <usize>(row / ROWS) * blocks * f.bytes();
    for (let c = tiled; c < ncols; c++) {
      const a = act + <usize>c * act_stride, y = dst + <usize>c * dst_stride;
      if (row1 - row >= ROWS) {
        one<F, D>(rows, blocks, a, y + (<usize>row << 2), scratch);
      } else {
        one<F, D>(rows, blocks, a, scratch + SPARE(), scratch);
        put(y, row, row1, scratch + SPARE());
      }
    }
  }
}

/** One column, 16 rows. */
// @ts-ignore: decorator
@inline
function one<F, D>(w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  if (column_loop<F>() == GEMV_16X1_Q6_K) gemv_16x1_q6_K<D>(w, n, a, y, scratch);
  else if (column_loop<F>() == GEMV_16X1_Q2_K) gemv_16x1_q2_K(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_S16) gemv_16x1_s16<F, D>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_SIGNS) gemv_16x1_signs<F, D>(w, n, a, y);
  else gemv_16x1<F, D>(w, n, a, y);
}

/** Sums of rows [row, min(row + 16, row1)) to their place in a column of dst. */
// @ts-ignore: decorator
@inline
function put(y: usize, row: i32, row1: i32, sums: usize): void {
  memory.copy(y + (<usize>row << 2), sums, <usize>min(ROWS, row1 - row) << 2);
}
