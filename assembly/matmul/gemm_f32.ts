/**
 * Packed products of f32, f16 and bf16 weights with f32 activations: a GEMV and a GEMM as in gemv_16x1.ts and gemm_8x4.ts, k after k.
 * Each output is one chain acc = madd(w, x, acc) over ascending k: the same bits in any batch.
 */
import { ACC, G0, G1, G2, G3, ROWS } from './format/group';
import { copy_rows } from './repack';
import { column_of, put } from './result';
import { madd } from '../simd';

/** Weights of a row that are unpacked at a time: 16 KB for 16 rows. */
const KC: i32 = 256;
const NC: i32 = 64;
const COLS: i32 = 4;
const PANELS: usize = <usize>NC * ACC;
/** Bytes of a panel: 8 rows x KC f32. */
const PANEL: usize = <usize>KC << 5;
const SPARE: usize = PANELS + 2 * PANEL;
export const GEMM_F32_SCRATCH: usize = SPARE + ACC;

/** y[0..15] = 16 packed rows at w . the n f32 at x. The 16 rows' weights of one k lie side by side. */
function gemv_f32_16x1<F>(w: usize, n: i32, x: usize, y: usize): void {
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
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}

/**
 * Adds 8 rows x 4 columns of products over n k to the f32 sums in memory. w: a panel, 32 bytes for each k. x0..x3: the columns, n f32 each.
 * acc: the first column's sum of the panel's first row; rows are 4 bytes apart, columns ACC bytes.
 */
function gemm_f32_8x4(w: usize, x0: usize, x1: usize, x2: usize, x3: usize, acc: usize, n: i32): void {
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

/** Converts n weights of 16 packed rows at w to the panel of the first 8 rows and, PANEL bytes behind it, that of the others. */
function unpack_f32<F>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  for (const end = panel + (<usize>n << 5); panel != end; panel += 32) {
    v128.store(panel, f.load<G0>(w));
    v128.store(panel, f.load<G1>(w), 16);
    v128.store(panel + PANEL, f.load<G2>(w));
    v128.store(panel + PANEL, f.load<G3>(w), 16);
    w += f.bytes() << 4;
  }
}

/** How many of ncols columns run over a panel: one left over is a GEMV, two or three are a tile filled up with copies of the last one. */
export function in_tiles(ncols: i32): i32 {
  return (ncols & 3) == 1 ? ncols - 1 : ncols;
}

/** Rows [row0, row1) x ncols columns; contracts in mul_mat_packed. */
export function mul_mat_f32<F>(
  w: usize,
  ne00: i32,
  row0: i32,
  row1: i32,
  x: usize,
  x_stride: usize,
  ncols: i32,
  dst: usize,
  dst_stride: usize,
  scratch: usize,
  places: usize,
): void {
  const f = changetype<F>(0);
  const block = <usize>ne00 * (f.bytes() << 4);
  const tiled = in_tiles(ncols);
  for (let c0 = 0; c0 < tiled; c0 += NC) {
    const nc = min(NC, tiled - c0);
    for (let row = row0; row < row1; row += ROWS) {
      memory.fill(scratch, 0, <usize>((nc + COLS - 1) & -COLS) * ACC);
      for (let k = 0; k < ne00; k += KC) {
        const n = min(KC, ne00 - k);
        unpack_f32<F>(w + <usize>(row / ROWS) * block + <usize>k * (f.bytes() << 4), n, scratch + PANELS);
        for (let c = 0; c < nc; c += COLS) {
          const last = nc - 1 - c;
          const acc = scratch + <usize>c * ACC;
          const x0 = x + <usize>(c0 + c) * x_stride + (<usize>k << 2);
          const x1 = x0 + <usize>min(1, last) * x_stride;
          const x2 = x0 + <usize>min(2, last) * x_stride;
          const x3 = x0 + <usize>min(3, last) * x_stride;
          gemm_f32_8x4(scratch + PANELS, x0, x1, x2, x3, acc, n);
          gemm_f32_8x4(scratch + PANELS + PANEL, x0, x1, x2, x3, acc + 32, n);
        }
      }
      for (let c = 0; c < nc; c++) put(column_of(dst, dst_stride, places, c0 + c), row, row1, scratch + <usize>c * ACC);
    }
  }
  if (tiled == ncols) return;
  for (let row = row0; row < row1; row += ROWS) {
    const rows = w + <usize>(row / ROWS) * block;
    const a = x + <usize>tiled * x_stride;
    const y = column_of(dst, dst_stride, places, tiled);
    if (row1 - row >= ROWS) {
      gemv_f32_16x1<F>(rows, ne00, a, y + (<usize>row << 2));
    } else {
      gemv_f32_16x1<F>(rows, ne00, a, scratch + SPARE);
      put(y, row, row1, scratch + SPARE);
    }
  }
}

/** Packs row blocks [from, to) in place; returns in how many of them a number is not finite (f16 only). scratch: the bytes of 16 plain rows. */
export function repack_f32<F>(w: usize, ne00: i32, nrows: i32, from: i32, to: i32, scratch: usize): i32 {
  const f = changetype<F>(0);
  const stride = <usize>ne00 * f.bytes();
  let bad = 0;
  for (let i = from; i < to; i++) {
    const rows = w + <usize>i * ROWS * stride;
    copy_rows(rows, stride, nrows - i * ROWS, scratch);
    bad += f.pack(scratch, stride, ne00, rows);
  }
  return bad;
}

/** Unpacks row `row` of the packed tensor at w to ne00 f32 at y. */
export function row_of_f32<F>(w: usize, ne00: i32, row: i32, y: usize): void {
  const f = changetype<F>(0);
  const step = f.bytes() << 4;
  let p = w + <usize>(row / ROWS) * ne00 * step + <usize>(row & 15) * f.bytes();
  for (let k = 0; k < ne00; k++, p += step, y += 4) store<f32>(y, f.number(p));
}
