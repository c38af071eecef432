/**
 * A product of packed f32, f16 or bf16 weights, around its loops (gemm_f32_8x4.ts,
 * gemv_f32_16x1.ts). It is product.ts without column blocks, since activations are plain rows of
 * f32.
 */
import { column, unpack } from './by_type';
import { ACC, ROWS } from './format/group';
import { gemm_f32_8x4 } from './gemm_f32_8x4';
import { KC_F32, PANEL_F32 } from './panel_f32';
import { column_of, put } from './result';
import { type_size } from '../type/ids';

const NC: i32 = 64;
const COLS: i32 = 4;
const PANELS: usize = <usize>NC * ACC;
const SPARE: usize = PANELS + 2 * PANEL_F32;
export const GEMM_F32_SCRATCH: usize = SPARE + ACC;

/**
 * Number of columns, of ncols, that run over a panel. A remainder of one is a GEMV; a remainder of
 * two or three is a tile padded with copies of the last column.
 */
export function in_tiles(ncols: i32): i32 {
  return (ncols & 3) == 1 ? ncols - 1 : ncols;
}

/** Computes rows [row0, row1) x ncols columns. Parameters: mul_mat_packed in packed.ts. */
export function mul_mat_f32(
  type: u32,
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
  const number = <usize>type_size(type);
  const block = (<usize>ne00 * number) << 4;
  const tiled = in_tiles(ncols);
  for (let c0 = 0; c0 < tiled; c0 += NC) {
    const nc = min(NC, tiled - c0);
    for (let row = row0; row < row1; row += ROWS) {
      memory.fill(scratch, 0, <usize>((nc + COLS - 1) & -COLS) * ACC);
      for (let k = 0; k < ne00; k += KC_F32) {
        const n = min(KC_F32, ne00 - k);
        unpack(type, w + <usize>(row / ROWS) * block + ((<usize>k * number) << 4), n, scratch + PANELS);
        for (let c = 0; c < nc; c += COLS) {
          const last = nc - 1 - c;
          const acc = scratch + <usize>c * ACC;
          const x0 = x + <usize>(c0 + c) * x_stride + (<usize>k << 2);
          const x1 = x0 + <usize>min(1, last) * x_stride;
          const x2 = x0 + <usize>min(2, last) * x_stride;
          const x3 = x0 + <usize>min(3, last) * x_stride;
          gemm_f32_8x4(scratch + PANELS, x0, x1, x2, x3, acc, n);
          gemm_f32_8x4(scratch + PANELS + PANEL_F32, x0, x1, x2, x3, acc + 32, n);
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
      column(type, rows, ne00, a, y + (<usize>row << 2), scratch);
    } else {
      column(type, rows, ne00, a, scratch + SPARE, scratch);
      put(y, row, row1, scratch + SPARE);
    }
  }
}
