// Generated from assembly/templates/tile.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * Layout of a column block, and the end of a super-block, of the GEMM's tiles of 8 rows x 4
 * columns.
 *
 * A column block has the activations of 4 columns side by side, as the tiles read them (act.ts
 * writes them). One pointer replaces 4 pointers. Scales and sums of four columns are computed at
 * once, one in each lane.
 *
 *   sub-block: | quants: 4 bytes of each column, then the next 4 (8 steps; i16 quants: 16 steps) |
 *              | d x 4 | sum x 4 | lane sums x 4 | lane sums x 4 |
 *
 * With ACT_K, d and sum hold what act.ts says of one column.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_QUANTS, ACT_SUB, ACT_SUM, SIGNED_SUB } from './act';
import { add_minima, end_panel_block } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3, splat } from './format/group';
import { minima_bytes } from './panel_size';

/** Columns of a column block. */
const COLS: usize = 4;

/**
 * Bytes that a sub-block of a column block takes, with the quants that format F multiplies (i8 or
 * i16).
 */
@inline
export function cols_sub<F>(): usize {
  return COLS * (fmt.eight_bits<F>() ? SIGNED_SUB : ACT_SUB);
}

/** Bytes that follow the quants of a sub-block. */
export const COLS_REST: usize = COLS * (ACT_SUB - ACT_QUANTS);
const COLS_D: usize = COLS * ACT_D;
const COLS_SUM: usize = COLS * ACT_SUM;
const COLS_LANE_SUMS0: usize = COLS * ACT_LANE_SUMS0;
const COLS_LANE_SUMS1: usize = COLS * ACT_LANE_SUMS1;

// ---- Vectors of four columns: the first at a, the next at a + 16 ----

/**
 * Lane sums of the sub-block whose quants begin at a: of all 32 quants, or with s16 of half 0 or 1.
 * For half 1, `a` has already advanced past the first half's quants. 0 if the format does not need
 * them.
 */
@inline
export function lane_sums_ahead<F>(a: usize, half: i32): v128 {
  if (fmt.taken_off<F>() == 0) return i32x4.splat(0);
  if (fmt.s16<F>()) return v128.load(half != 0 ? a + (COLS_LANE_SUMS1 - COLS_LANE_SUMS0 - (COLS * ACT_QUANTS) / 2) : a, COLS_LANE_SUMS0);
  return i16x8.add(v128.load(a, COLS_LANE_SUMS0), v128.load(a, COLS_LANE_SUMS1));
}

// ---- In these functions, a points after the quants ----

/** Lane sums of all 32 quants. */
@inline
export function lane_sums_after(a: usize): v128 {
  return i16x8.add(v128.load(a, COLS_LANE_SUMS0 - COLS_D), v128.load(a, COLS_LANE_SUMS1 - COLS_D));
}

/** The scales d. */
@inline
export function scales(a: usize): v128 {
  return v128.load(a);
}

/** Factors of the minima: the sums of the quants, f32. */
@inline
export function quant_sums<F>(a: usize): v128 {
  return fmt.has_min<F>() ? v128.load(a, COLS_SUM - COLS_D) : i32x4.splat(0);
}

/**
 * With ACT_K: two i16 sums, those of two sub-blocks (a: after the odd one's quants), or with s16
 * those of the two halves of one.
 */
@inline
function sums_pair<F>(a: usize): v128 {
  return v128.load(a, fmt.s16<F>() ? COLS_SUM - COLS_D : 0);
}

/**
 * Ends a super-block for all columns: d (and dmin) lie at w, minima before w, activations before a.
 * i<group><column>: integer sums. (Inlined: V8's revectoriser crashes the process if vectors that it
 * joined are arguments of a call. It joins the two stores of a column, because they are adjacent.)
 */
@inline
export function end_super_block<F>(
  w: usize,
  a: usize,
  acc: usize,
  i00: v128,
  i10: v128,
  i01: v128,
  i11: v128,
  i02: v128,
  i12: v128,
  i03: v128,
  i13: v128,
): void {
  const zero = i32x4.splat(0);
  let n00 = zero;
  let n10 = zero;
  let n01 = zero;
  let n11 = zero;
  let n02 = zero;
  let n12 = zero;
  let n03 = zero;
  let n13 = zero;
  if (fmt.has_min<F>()) {
    const step = fmt.s16<F>() ? cols_sub<F>() : cols_sub<F>() << 1;
    let p = a - 8 * cols_sub<F>() + step - COLS_REST;
    for (let m = w - 1 * minima_bytes<F>(); m != w; m += 32) {
      const v0 = v128.load(m, 0);
      const v1 = v128.load(m, 16);
      const sums0 = sums_pair<F>(p + 0);
      let x: v128;
      x = splat<G0>(sums0);
      n00 = add_minima(n00, v0, x);
      n10 = add_minima(n10, v1, x);
      x = splat<G1>(sums0);
      n01 = add_minima(n01, v0, x);
      n11 = add_minima(n11, v1, x);
      x = splat<G2>(sums0);
      n02 = add_minima(n02, v0, x);
      n12 = add_minima(n12, v1, x);
      x = splat<G3>(sums0);
      n03 = add_minima(n03, v0, x);
      n13 = add_minima(n13, v1, x);
      p += step;
    }
  }
  const d0 = v128.load(w, 0);
  const d1 = v128.load(w, 16);
  const m0 = fmt.has_min<F>() ? v128.load(w, 32) : zero;
  const m1 = fmt.has_min<F>() ? v128.load(w, 48) : zero;
  const da0 = scales(a - cols_sub<F>() - COLS_REST + 0);
  const e0 = splat<G0>(da0);
  const y00 = end_panel_block<F>(v128.load(acc, 0 * ACC + 0), i00, d0, f32x4.convert_i32x4_s(n00), m0, e0);
  const y10 = end_panel_block<F>(v128.load(acc, 0 * ACC + 16), i10, d1, f32x4.convert_i32x4_s(n10), m1, e0);
  v128.store(acc, y00, 0 * ACC + 0);
  v128.store(acc, y10, 0 * ACC + 16);
  const e1 = splat<G1>(da0);
  const y01 = end_panel_block<F>(v128.load(acc, 1 * ACC + 0), i01, d0, f32x4.convert_i32x4_s(n01), m0, e1);
  const y11 = end_panel_block<F>(v128.load(acc, 1 * ACC + 16), i11, d1, f32x4.convert_i32x4_s(n11), m1, e1);
  v128.store(acc, y01, 1 * ACC + 0);
  v128.store(acc, y11, 1 * ACC + 16);
  const e2 = splat<G2>(da0);
  const y02 = end_panel_block<F>(v128.load(acc, 2 * ACC + 0), i02, d0, f32x4.convert_i32x4_s(n02), m0, e2);
  const y12 = end_panel_block<F>(v128.load(acc, 2 * ACC + 16), i12, d1, f32x4.convert_i32x4_s(n12), m1, e2);
  v128.store(acc, y02, 2 * ACC + 0);
  v128.store(acc, y12, 2 * ACC + 16);
  const e3 = splat<G3>(da0);
  const y03 = end_panel_block<F>(v128.load(acc, 3 * ACC + 0), i03, d0, f32x4.convert_i32x4_s(n03), m0, e3);
  const y13 = end_panel_block<F>(v128.load(acc, 3 * ACC + 16), i13, d1, f32x4.convert_i32x4_s(n13), m1, e3);
  v128.store(acc, y03, 3 * ACC + 0);
  v128.store(acc, y13, 3 * ACC + 16);
}
