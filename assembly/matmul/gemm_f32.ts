/**
 * Loops of f32, f16 and bf16 weights with f32 activations: a GEMV and a GEMM as in gemv_16x1.ts and
 * gemm_8x4.ts, k after k. product_f32.ts calls them. Each output is one chain acc = madd(w, x, acc)
 * over ascending k, so its bits are the same in any batch.
 */
import { G0, G1, G2, G3, store_sums } from './format/group';
import { madd } from '../simd';

/** Weights of a row that are unpacked at a time: 16 KB for 16 rows. */
export const KC_F32: i32 = 256;
/** Bytes of a panel: 8 rows x KC_F32 f32. */
export const PANEL_F32: usize = <usize>KC_F32 << 5;

/** y[0..15] = 16 packed rows at w . the n f32 at x. The 16 weights of one k lie side by side. */
export function gemv_f32_16x1<F>(w: usize, n: i32, x: usize, y: usize): void {
  const f = changetype<F>(0);
  let y0 = f32x4.splat(0);
  let y1 = y0;
  let y2 = y0;
  let y3 = y0;
  for (const end = x + (<usize>n << 2); x != end; x += 4) {
    const a = v128.load32_splat(x);
    y0 = madd(f.load<G0>(w), a, y0);
    y1 = madd(f.load<G1>(w), a, y1);
    y2 = madd(f.load<G2>(w), a, y2);
    y3 = madd(f.load<G3>(w), a, y3);
    w += f.bytes() << 4;
  }
  store_sums(y, y0, y1, y2, y3);
}

/**
 * Adds 8 rows x 4 columns of products over n k to the f32 sums in memory.
 *
 *   w      | a panel, 32 bytes for each k
 *   x0..x3 | the columns, n f32 each
 *   acc    | the first column's sum of the panel's first row; rows are 4 bytes apart, columns ACC
 */
export function gemm_f32_8x4(w: usize, x0: usize, x1: usize, x2: usize, x3: usize, acc: usize, n: i32): void {
  let s00 = v128.load(acc);
  let s10 = v128.load(acc, 16);
  let s01 = v128.load(acc, 64);
  let s11 = v128.load(acc, 80);
  let s02 = v128.load(acc, 128);
  let s12 = v128.load(acc, 144);
  let s03 = v128.load(acc, 192);
  let s13 = v128.load(acc, 208);
  for (const end = w + (<usize>n << 5); w != end; w += 32) {
    const w0 = v128.load(w);
    const w1 = v128.load(w, 16);
    let a = v128.load32_splat(x0);
    s00 = madd(w0, a, s00);
    s10 = madd(w1, a, s10);
    a = v128.load32_splat(x1);
    s01 = madd(w0, a, s01);
    s11 = madd(w1, a, s11);
    a = v128.load32_splat(x2);
    s02 = madd(w0, a, s02);
    s12 = madd(w1, a, s12);
    a = v128.load32_splat(x3);
    s03 = madd(w0, a, s03);
    s13 = madd(w1, a, s13);
    x0 += 4;
    x1 += 4;
    x2 += 4;
    x3 += 4;
  }
  v128.store(acc, s00);
  v128.store(acc, s10, 16);
  v128.store(acc, s01, 64);
  v128.store(acc, s11, 80);
  v128.store(acc, s02, 128);
  v128.store(acc, s12, 144);
  v128.store(acc, s03, 192);
  v128.store(acc, s13, 208);
}

/**
 * Converts n weights of 16 packed rows at w to two panels: one of the first 8 rows and, PANEL_F32
 * bytes after it, one of the other 8.
 */
export function unpack_f32<F>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  for (const end = panel + (<usize>n << 5); panel != end; panel += 32) {
    v128.store(panel, f.load<G0>(w));
    v128.store(panel, f.load<G1>(w), 16);
    v128.store(panel + PANEL_F32, f.load<G2>(w));
    v128.store(panel + PANEL_F32, f.load<G3>(w), 16);
    w += f.bytes() << 4;
  }
}
