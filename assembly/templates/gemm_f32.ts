// $let GROUPS = ROWS / 4
/**
 * The GEMM's inner loop for f32, f16 and bf16 weights (unpacked to f32: panel_f32.ts) with f32
 * activations, k after k. product_f32.ts calls it. Each output is one chain acc = madd(w, x, acc)
 * over ascending k, so its bits are the same in any batch.
 */
import { ACC } from './format/group';
import { madd } from '../simd';

/**
 * Adds $ROWS rows x $COLS columns of products over n k to the f32 sums in memory.
 *
 *   w   | a panel, 4 bytes of each row for each k
 *   x.. | the columns, n f32 each
 *   acc | the first column's sum of the panel's first row; rows are 4 bytes apart, columns ACC
 */
export function gemm_f32_$ROWSx$COLS(
  w: usize,
  x$c: usize, // $for c of 0..COLS
  acc: usize,
  n: i32,
): void {
  // $for c of 0..COLS
  let s$g$c = v128.load(acc, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
  // $end
  for (const end = w + <usize>n * $(4 * ROWS); w != end; w += $(4 * ROWS)) {
    const w$g = v128.load(w, $(16 * g)); // $for g of 0..GROUPS
    // $for c of 0..COLS
    const a$c = v128.load32_splat(x$c);
    s$g$c = madd(w$g, a$c, s$g$c); // $for g of 0..GROUPS
    // $end
    x$c += 4; // $for c of 0..COLS
  }
  // $for c of 0..COLS
  v128.store(acc, s$g$c, $c * ACC + $(16 * g)); // $for g of 0..GROUPS
  // $end
}
