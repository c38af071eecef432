/**
 * A product of packed weights in blocks, of any format, around its loops (src/packed-format.ts):
 * either tiles of columns and rows whose sums stay in L1 (gemm_8x4.ts has a picture), or one column
 * after the other. One function walks for all formats, because one for each was 9 KB of every
 * build. by_type.ts calls a format's loops, once for 16 rows and at least 512 of their weights (or
 * the whole row).
 */
import { MOST_FEW } from '../layout';
import { COLS, blocked_columns, cols_sub_of, is_few } from './act';
import { act_type, column, few_columns, tile, unpack } from './by_type';
import { ACC, CHUNK_ROWS, ROWS } from './format/group';
import { OPENED } from './format/grid';
import { SCRATCH_16XN } from './gemm_16xn';
import { SCRATCH_GRID } from './gemv_16x1_grid';
import { SUMS } from './gemv_16x1_q6_K';
import { PANEL } from './panel_room';
import { KC, most } from './panel_size';
import { column_of, put } from './result';
import { blck_size, type_size } from '../type/ids';

/**
 * Columns and rows whose f32 sums are kept at a time; a thread takes that many rows. More columns
 * unpack each panel less often, but with 256 the activations of long rows leave L2.
 */
const NC: i32 = 128;
const MC: i32 = CHUNK_ROWS;

/** Bytes of those sums, ACC for each column of a row block. The panels follow in the scratch. */
const TILE_SUMS: usize = <usize>NC * ACC * (MC / ROWS);

/**
 * Offset in the scratch of opened rows (format/grid.ts), used while they are unpacked: after the
 * panels.
 */
@inline
function OPENED_AT(): usize {
  return TILE_SUMS + 2 * PANEL();
}

/**
 * Offset in the scratch of ACC bytes for the 16 outputs of an incomplete row block: after the bytes
 * that the loops use.
 */
@inline
function SPARE(): usize {
  return most(OPENED_AT() + 8 * OPENED, most(most(SCRATCH_16XN, SUMS), SCRATCH_GRID));
}

/** Bytes of scratch. */
@inline
export function gemm_scratch(): usize {
  return SPARE() + ACC;
}

/**
 * Computes rows [row0, row1) x ncols columns for a type in blocks. Parameters: mul_mat_packed in
 * packed.ts.
 */
export function mul_mat(
  type: u32,
  w: usize,
  ne00: i32,
  row0: i32,
  row1: i32,
  act: usize,
  act_stride: usize,
  ncols: i32,
  dst: usize,
  dst_stride: usize,
  scratch: usize,
  places: usize,
): void {
  const block = blck_size(type);
  const blocks = <i32>(<u32>ne00 / block);
  const bytes = <usize>type_size(type) * ROWS;
  const block_subs = <i32>(block >> 5);
  const columns_type = act_type(type);
  const stride = <usize>blocks * bytes;
  let rows = w + <usize>(row0 / ROWS) * stride;
  if (is_few(columns_type) && ncols > 1 && ncols <= MOST_FEW) {
    for (let row = row0; row < row1; row += ROWS, rows += stride) {
      memory.fill(scratch, 0, <usize>ncols * ACC);
      few_columns(type, rows, blocks, act, act_stride, ncols, scratch, scratch + <usize>ncols * ACC);
      for (let c = 0; c < ncols; c++) put(column_of(dst, dst_stride, places, c), row, row1, scratch + <usize>c * ACC);
    }
    return;
  }
  const blocked = blocked_columns(columns_type, ncols);
  const kb = KC / (block_subs << 5);
  for (let c0 = 0; c0 < blocked; c0 += NC) {
    const nc = min(NC, blocked - c0);
    const sums = ((<usize>nc + COLS - 1) & -COLS) * ACC;
    for (let m0 = row0; m0 < row1; m0 += MC) {
      const m1 = min(m0 + MC, row1);
      memory.fill(scratch, 0, <usize>((m1 - m0 + ROWS - 1) / ROWS) * sums);
      for (let b = 0; b < blocks; b += kb) {
        const nb = min(kb, blocks - b);
        const columns = act + <usize>c0 * act_stride + <usize>(b * block_subs) * cols_sub_of(columns_type);
        for (let row = m0, acc = scratch; row < m1; row += ROWS) {
          unpack(type, w + <usize>(row / ROWS) * stride + <usize>b * bytes, nb, scratch + TILE_SUMS);
          for (let c = 0, p = columns; c < nc; c += <i32>COLS, p += COLS * act_stride, acc += COLS * ACC) {
            tile(type, scratch + TILE_SUMS, p, acc, nb);
            tile(type, scratch + TILE_SUMS + PANEL(), p, acc + 32, nb);
          }
        }
      }
      for (let row = m0, acc = scratch; row < m1; row += ROWS, acc += sums) {
        for (let c = 0; c < nc; c++) put(column_of(dst, dst_stride, places, c0 + c), row, row1, acc + <usize>c * ACC);
      }
    }
  }
  if (blocked == ncols) return;
  for (let row = row0; row < row1; row += ROWS, rows += stride) {
    for (let c = blocked; c < ncols; c++) {
      const a = act + <usize>c * act_stride;
      const y = column_of(dst, dst_stride, places, c);
      if (row1 - row >= ROWS) {
        column(type, rows, blocks, a, y + (<usize>row << 2), scratch);
      } else {
        column(type, rows, blocks, a, scratch + SPARE(), scratch);
        put(y, row, row1, scratch + SPARE());
      }
    }
  }
}
