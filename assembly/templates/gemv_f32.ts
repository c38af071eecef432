/**
 * One column of f32 activations times 16 packed rows of f32, f16 or bf16 weights, k after k. Each
 * output is one chain, as in gemm_f32_8x4.ts.
 */
import { G0, G1, G2, G3, store_sums } from './format/group';
import { madd } from '../simd';

/** y[0..15] = 16 packed rows at w . the n f32 at x. The 16 weights of one k lie side by side. */
export function gemv_f32_16x1<F>(w: usize, n: i32, x: usize, y: usize): void {
  const f = changetype<F>(0);
  let y0 = f32x4.splat(0);
  let y$g = y0; // $for g of 1..4
  for (const end = x + (<usize>n << 2); x != end; x += 4) {
    const a = v128.load32_splat(x);
    y$g = madd(f.load<G$g>(w), a, y$g); // $for g of 0..4
    w += f.bytes() << 4;
  }
  store_sums(y, y0, y1, y2, y3);
}
