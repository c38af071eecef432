// Generated from assembly/templates/gemm_f32.ts for ROWS = 8, COLS = 4 by `npm run generate`: edit the template.
/**
 * The GEMM's inner loop for f32, f16 and bf16 weights (unpacked to f32: panel_f32.ts) with f32
 * activations, k after k. product_f32.ts calls it. Each output is one chain acc = madd(w, x, acc)
 * over ascending k, so its bits are the same in any batch.
 */
import { ACC } from './format/group';
import { madd } from '../simd';

/**
 * Adds 8 rows x 4 columns of products over n k to the f32 sums in memory.
 *
 *   w   | a panel, 4 bytes of each row for each k
 *   x.. | the columns, n f32 each
 *   acc | the first column's sum of the panel's first row; rows are 4 bytes apart, columns ACC
 */
export function gemm_f32_8x4(w: usize, x0: usize, x1: usize, x2: usize, x3: usize, acc: usize, n: i32): void {
  let s00 = v128.load(acc, 0 * ACC + 0);
  let s10 = v128.load(acc, 0 * ACC + 16);
  let s01 = v128.load(acc, 1 * ACC + 0);
  let s11 = v128.load(acc, 1 * ACC + 16);
  let s02 = v128.load(acc, 2 * ACC + 0);
  let s12 = v128.load(acc, 2 * ACC + 16);
  let s03 = v128.load(acc, 3 * ACC + 0);
  let s13 = v128.load(acc, 3 * ACC + 16);
  for (const end = w + <usize>n * 32; w != end; w += 32) {
    const w0 = v128.load(w, 0);
    const w1 = v128.load(w, 16);
    const a0 = v128.load32_splat(x0);
    s00 = madd(w0, a0, s00);
    s10 = madd(w1, a0, s10);
    const a1 = v128.load32_splat(x1);
    s01 = madd(w0, a1, s01);
    s11 = madd(w1, a1, s11);
    const a2 = v128.load32_splat(x2);
    s02 = madd(w0, a2, s02);
    s12 = madd(w1, a2, s12);
    const a3 = v128.load32_splat(x3);
    s03 = madd(w0, a3, s03);
    s13 = madd(w1, a3, s13);
    x0 += 4;
    x1 += 4;
    x2 += 4;
    x3 += 4;
  }
  v128.store(acc, s00, 0 * ACC + 0);
  v128.store(acc, s10, 0 * ACC + 16);
  v128.store(acc, s01, 1 * ACC + 0);
  v128.store(acc, s11, 1 * ACC + 16);
  v128.store(acc, s02, 2 * ACC + 0);
  v128.store(acc, s12, 2 * ACC + 16);
  v128.store(acc, s03, 3 * ACC + 0);
  v128.store(acc, s13, 3 * ACC + 16);
}
