/**
 * A product of packed weights of any format in blocks, around its loops (loops.ts): tiles of columns and rows, whose sums stay in L1 (gemm_8x4.ts has a
 * picture), or one column after the other. The walk is one function for all formats, because as one for each it was 9 KB of every build; it calls
 * a format's loops by their places in the function table, once for 16 rows and at least 512 weights (or a whole row) of them.
 */
import { COLS, MOST_16XN, blocked_columns, cols_sub_of } from './act';
import * as fmt from './format/format';
import { ACC, CHUNK_ROWS, ROWS } from './format/group';
import { Codes7, Codes8, OPENED } from './format/grid';
import { TwoBits } from './format/q2_0';
import { SCRATCH_16XN, gemm_16xn } from './gemm_16xn';
import { I16_CODES } from './dot_signed';
import { gemm_8x4 } from './gemm_8x4';
import { gemm_8x4_bits, unpack_bits } from './gemm_8x4_bits';
import { gemm_8x4_i16, gemm_8x4_nibbles } from './gemm_8x4_i16';
import { gemv_16x1 } from './gemv_16x1';
import { gemv_16x1_bits } from './gemv_16x1_bits';
import { SCRATCH_GRID, gemv_16x1_grid } from './gemv_16x1_grid';
import { gemv_16x1_nvfp4 } from './gemv_16x1_nvfp4';
import { gemv_16x1_q2_K } from './gemv_16x1_q2_K';
import { SUMS, gemv_16x1_q6_K } from './gemv_16x1_q6_K';
import { gemv_16x1_s16 } from './gemv_16x1_s16';
import { gemv_16x1_signs } from './gemv_16x1_signs';
import { gemv_16x1_trits, unpack_trits } from './gemv_16x1_trits';
import {
  GEMM_8X4,
  GEMM_8X4_BITS,
  GEMM_8X4_I16,
  GEMV_16X1_BITS,
  GEMV_16X1_NVFP4,
  GEMV_16X1_Q2_K,
  GEMV_16X1_Q6_K,
  GEMV_16X1_S16,
  GEMV_16X1_SIGNS,
  GEMV_16X1_TRITS,
  act_type,
  column_loop,
  takes_16xn,
  tile_loop,
} from './loops';
import { unpack } from './panel';
import { unpack_grid } from './panel_grid';
import { PANEL } from './panel_room';
import { KC, most } from './panel_size';
import { column_of, put } from './result';

/** Columns, and rows, whose f32 sums are kept at a time: as many rows as a thread takes. */
const NC: i32 = 64;
const MC: i32 = CHUNK_ROWS;

/** Bytes of those sums, ACC for each column of a row block; the panels follow. */
const TILE_SUMS: usize = <usize>NC * ACC * (MC / ROWS);

/** Where the scratch has opened rows (format/grid.ts) while they are unpacked: behind the panels. */
// @ts-ignore: decorator
@inline
function OPENED_AT(): usize {
  return TILE_SUMS + 2 * PANEL();
}

/** Where the scratch has ACC bytes for a row block's 16 outputs of which only some exist: behind what the loops want. */
// @ts-ignore: decorator
@inline
function SPARE(): usize {
  return most(OPENED_AT() + 8 * OPENED, most(most(SCRATCH_16XN, SUMS), SCRATCH_GRID));
}

/** Bytes of scratch. */
// @ts-ignore: decorator
@inline
export function gemm_scratch(): usize {
  return SPARE() + ACC;
}

/** 64 weights each, of which a format with few_bits has a block. */
// @ts-ignore: decorator
@inline
function pairs<F>(): i32 {
  return fmt.subs<F>() >> 1;
}

/** Unpacks n blocks of a format. (One function does for all formats of 2 bits, here and below.) */
// @ts-ignore: decorator
@inline
function to_panel<F>(w: usize, n: i32, panel: usize): void {
  if (fmt.grid<F>()) return grid_to_panel<F>(w, n, panel);
  if (fmt.two_bits<F>()) unpack_bits<TwoBits>(w, n, pairs<F>(), panel);
  else if (fmt.trits<F>()) unpack_trits(w, n, panel);
  else if (fmt.few_bits<F>()) unpack_bits<F>(w, n, pairs<F>(), panel);
  else unpack<F>(w, n, panel);
}

/** A column block times n blocks of a panel, by the loop of the format. */
// @ts-ignore: decorator
@inline
function tile<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (fmt.grid<F>() && I16_CODES) return gemm_8x4_i16<Codes8>(w, a, acc, n);
  if (fmt.grid<F>()) return gemm_8x4<Codes7>(w, a, acc, n);
  if (tile_loop<F>() == GEMM_8X4_BITS) gemm_8x4_bits(w, a, acc, n * pairs<F>());
  else if (tile_loop<F>() == GEMM_8X4) gemm_8x4<F>(w, a, acc, n);
  else if (tile_loop<F>() == GEMM_8X4_I16) gemm_8x4_i16<F>(w, a, acc, n);
  else gemm_8x4_nibbles<F>(w, a, acc, n);
}

/** One column times 16 rows, by the loop of the format. */
// @ts-ignore: decorator
@inline
function column<F>(w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  if (fmt.grid<F>()) return grid_column<F>(w, n, a, y, scratch);
  if (column_loop<F>() == GEMV_16X1_TRITS) gemv_16x1_trits(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_NVFP4) gemv_16x1_nvfp4<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_BITS && fmt.two_bits<F>()) gemv_16x1_bits<TwoBits>(w, n, pairs<F>(), a, y);
  else if (column_loop<F>() == GEMV_16X1_BITS) gemv_16x1_bits<F>(w, n, pairs<F>(), a, y);
  else if (column_loop<F>() == GEMV_16X1_Q6_K) gemv_16x1_q6_K<F>(w, n, a, y, scratch);
  else if (column_loop<F>() == GEMV_16X1_Q2_K) gemv_16x1_q2_K<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_S16) gemv_16x1_s16<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_SIGNS) gemv_16x1_signs<F>(w, n, a, y);
  else gemv_16x1<F>(w, n, a, y);
}

// ---- Formats of grids: one function does for all ----

// @ts-ignore: decorator
@inline
function open_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, o: usize): void => changetype<F>(0).open(w, o)));
}

// @ts-ignore: decorator
@inline
function grid_to_panel<F>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  const opened = panel + 2 * PANEL();
  unpack_grid(w, n, panel, opened, f.bytes(), f.factor(), open_index<F>(), fmt.fours<F>(), fmt.has_signs<F>());
}

// @ts-ignore: decorator
@inline
function grid_column<F>(w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  const f = changetype<F>(0);
  gemv_16x1_grid(w, n, a, y, scratch, f.bytes(), f.factor(), open_index<F>(), fmt.fours<F>(), fmt.has_signs<F>());
}

// ---- A format's loops by their places in the function table, which the compiler writes behind the address of a function ----

// @ts-ignore: decorator
@inline
export function unpack_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, n: i32, panel: usize): void => to_panel<F>(w, n, panel)));
}

// @ts-ignore: decorator
@inline
function tile_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, a: usize, acc: usize, n: i32): void => tile<F>(w, a, acc, n)));
}

// @ts-ignore: decorator
@inline
function column_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, n: i32, a: usize, y: usize, scratch: usize): void => column<F>(w, n, a, y, scratch)));
}

/** 0 where the format does not take it: no function has that place. */
// @ts-ignore: decorator
@inline
function few_index<F>(): u32 {
  if (!takes_16xn<F>()) return 0;
  return load<u32>(
    changetype<usize>((w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void =>
      gemm_16xn<F>(w, n, a, stride, ncols, acc, scratch),
    ),
  );
}

// @ts-ignore: decorator
@inline
function must_fit<F>(): void {
  if (!fmt.eight_bits<F>() && !fmt.fits_i16<F>())
    ERROR('i16 has no room for the sums of such codes: give them as signed ones of 8 bits (dot_signed.ts)');
}

/** Rows [row0, row1) x ncols columns; contracts, and the same parameters, in mul_mat_packed (packed.ts): a record of them would be read from memory. */
// @ts-ignore: decorator
@inline
export function mul_mat_of<F>(
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
  if (!fmt.grid<F>()) must_fit<F>();
  const bytes = changetype<F>(0).bytes();
  const few = few_index<F>();
  // prettier-ignore
  mul_mat(
    w, ne00 / fmt.weights<F>(), row0, row1, act, act_stride, ncols, dst, dst_stride, scratch, places,
    bytes, fmt.subs<F>(), act_type<F>(), few, unpack_index<F>(), tile_index<F>(), column_index<F>(),
  );
}

/**
 * The same of rows of `blocks` blocks of `bytes` (of 16 rows), each of `subs` sub-blocks. type: that of the activations. *_at: places of the format's loops
 * in the function table.
 */
function mul_mat(
  w: usize,
  blocks: i32,
  row0: i32,
  row1: i32,
  act: usize,
  act_stride: usize,
  ncols: i32,
  dst: usize,
  dst_stride: usize,
  scratch: usize,
  places: usize,
  bytes: usize,
  subs: i32,
  type: u32,
  few_at: u32,
  unpack_at: u32,
  tile_at: u32,
  column_at: u32,
): void {
  const stride = <usize>blocks * bytes;
  let rows = w + <usize>(row0 / ROWS) * stride;
  if (few_at != 0 && ncols > 1 && ncols <= MOST_16XN) {
    for (let row = row0; row < row1; row += ROWS, rows += stride) {
      memory.fill(scratch, 0, <usize>ncols * ACC);
      call_indirect<void>(few_at, rows, blocks, act, act_stride, ncols, scratch, scratch + <usize>ncols * ACC);
      for (let c = 0; c < ncols; c++) put(column_of(dst, dst_stride, places, c), row, row1, scratch + <usize>c * ACC);
    }
    return;
  }
  const blocked = blocked_columns(type, ncols);
  const kb = KC / (subs << 5);
  for (let c0 = 0; c0 < blocked; c0 += NC) {
    const nc = min(NC, blocked - c0);
    const sums = ((<usize>nc + COLS - 1) & -COLS) * ACC;
    for (let m0 = row0; m0 < row1; m0 += MC) {
      const m1 = min(m0 + MC, row1);
      memory.fill(scratch, 0, <usize>((m1 - m0 + ROWS - 1) / ROWS) * sums);
      for (let b = 0; b < blocks; b += kb) {
        const nb = min(kb, blocks - b);
        const columns = act + <usize>c0 * act_stride + <usize>(b * subs) * cols_sub_of(type);
        for (let row = m0, acc = scratch; row < m1; row += ROWS) {
          call_indirect<void>(unpack_at, w + <usize>(row / ROWS) * stride + <usize>b * bytes, nb, scratch + TILE_SUMS);
          for (let c = 0, p = columns; c < nc; c += <i32>COLS, p += COLS * act_stride, acc += COLS * ACC) {
            call_indirect<void>(tile_at, scratch + TILE_SUMS, p, acc, nb);
            call_indirect<void>(tile_at, scratch + TILE_SUMS + PANEL(), p, acc + 32, nb);
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
        call_indirect<void>(column_at, rows, blocks, a, y + (<usize>row << 2), scratch);
      } else {
        call_indirect<void>(column_at, rows, blocks, a, scratch + SPARE(), scratch);
        put(y, row, row1, scratch + SPARE());
      }
    }
  }
}
