/**
 * Layout of a column block, and the end of a super-block, of the GEMM's tiles of $ROWS rows x $COLS
 * columns.
 *
 * A column block has the activations of $COLS columns side by side, as the tiles read them (act.ts
 * writes them). One pointer replaces $COLS pointers. Scales and sums of four columns are computed at
 * once, one in each lane.
 *
 *   sub-block: | quants: 4 bytes of each column, then the next 4 (8 steps; i16 quants: 16 steps) |
 *              | d x $COLS | sum x $COLS | lane sums x $COLS | lane sums x $COLS |
 *
 * With ACT_K, d and sum hold what act.ts says of one column.
 */
// $let GROUPS = ROWS / 4
// $let VECTORS = Math.ceil(COLS / 4)
// $let COLUMNS = Array.from({ length: COLS }, (_, c) => [c, c >> 2, c & 3])
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_QUANTS, ACT_SUB, ACT_SUM, SIGNED_SUB } from './act';
import { add_minima, end_panel_block } from './epilogue';
import * as fmt from './format/format';
import { ACC, G0, G1, G2, G3, splat } from './format/group';
import { minima_bytes } from './panel_size';

/** Columns of a column block. */
const COLS: usize = $COLS;

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
  // $for c of 0..COLS
  i$g$c: v128, // $for g of 0..GROUPS
  // $end
): void {
  const zero = i32x4.splat(0);
  // $for c of 0..COLS
  let n$g$c = zero; // $for g of 0..GROUPS
  // $end
  if (fmt.has_min<F>()) {
    const step = fmt.s16<F>() ? cols_sub<F>() : cols_sub<F>() << 1;
    let p = a - 8 * cols_sub<F>() + step - COLS_REST;
    for (let m = w - $(ROWS / 8) * minima_bytes<F>(); m != w; m += $(16 * GROUPS)) {
      const v$g = v128.load(m, $(16 * g)); // $for g of 0..GROUPS
      const sums$v = sums_pair<F>(p + $(16 * v)); // $for v of 0..VECTORS
      let x: v128;
      // $for c, v, lane of COLUMNS
      x = splat<G$lane>(sums$v);
      n$g$c = add_minima(n$g$c, v$g, x); // $for g of 0..GROUPS
      // $end
      p += step;
    }
  }
  const d$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
  const m$g = fmt.has_min<F>() ? v128.load(w, $(16 * GROUPS + 16 * g)) : zero; // $for g of 0..GROUPS
  const da$v = scales(a - cols_sub<F>() - COLS_REST + $(16 * v)); // $for v of 0..VECTORS
  // $for c, v, lane of COLUMNS
  const e$c = splat<G$lane>(da$v);
  const y$g$c = end_panel_block<F>(v128.load(acc, $c * ACC + $(16 * g)), i$g$c, d$g, f32x4.convert_i32x4_s(n$g$c), m$g, e$c); // $for g of 0..GROUPS
  v128.store(acc, y$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
  // $end
}
