/**
 * What is compiled for each format F, a class of format/<type>.ts: the word of its facts, and its loops. by_type.ts, which is generated, has each of these for
 * a type id: a switch with calls. (As places in the function table with a call_indirect they were 8 KB more of each build.)
 */
import { facts_of } from './facts';
import * as fmt from './format/format';
import { Codes7, Codes8, GRID_I16 } from './format/grid';
import { gemm_16xn } from './gemm_16xn';
import { gemm_8x4 } from './gemm_8x4';
import { gemm_8x4_bits, unpack_bits } from './gemm_8x4_bits';
import { gemm_8x4_grid } from './gemm_8x4_grid';
import { gemm_8x4_i16, gemm_8x4_nibbles } from './gemm_8x4_i16';
import { gemv_f32_16x1, unpack_f32 } from './gemm_f32';
import { gemv_16x1 } from './gemv_16x1';
import { gemv_16x1_bits } from './gemv_16x1_bits';
import { gemv_16x1_grid } from './gemv_16x1_grid';
import { gemv_16x1_levels } from './gemv_16x1_levels';
import { gemv_16x1_nvfp4 } from './gemv_16x1_nvfp4';
import { gemv_16x1_q2_K } from './gemv_16x1_q2_K';
import { gemv_16x1_q6_K } from './gemv_16x1_q6_K';
import { gemv_16x1_s16 } from './gemv_16x1_s16';
import { gemv_16x1_signs } from './gemv_16x1_signs';
import { gemv_16x1_trits, unpack_trits } from './gemv_16x1_trits';
import {
  GEMM_8X4,
  GEMM_8X4_BITS,
  GEMM_8X4_GRID,
  GEMM_8X4_I16,
  GEMV_16X1_BITS,
  GEMV_16X1_NVFP4,
  GEMV_16X1_Q2_K,
  GEMV_16X1_Q6_K,
  GEMV_16X1_S16,
  GEMV_16X1_SIGNS,
  GEMV_16X1_TRITS,
  column_loop,
  takes_16xn,
  tile_loop,
} from './loops';
import { unpack } from './panel';
import { unpack_grid, unpack_levels } from './panel_grid';
import { PANEL } from './panel_room';

/** Facts of the packed weights of a type (facts.ts); 0 for types that have none. */
// @ts-ignore: decorator
@inline
export function facts_as<F>(): u64 {
  return facts_of<F>();
}

/** Packs 16 plain rows, `stride` bytes apart at src, to w: a block of each, or of floats all n numbers. */
// @ts-ignore: decorator
@inline
export function pack_block_as<F>(src: usize, stride: usize, w: usize, n: i32): void {
  if (fmt.is_float<F>()) changetype<F>(0).pack(src, stride, n, w);
  else changetype<F>(0).pack(src, stride, w);
}

/** The same to what the type can be packed as besides (`fast` in src/type-traits.ts). */
// @ts-ignore: decorator
@inline
export function pack_fast_as<F>(src: usize, stride: usize, w: usize): void {
  changetype<F>(0).pack_fast(src, stride, w);
}

/** 64 weights each, of which a format with few_bits has a block. */
// @ts-ignore: decorator
@inline
function pairs<F>(): i32 {
  return fmt.subs<F>() >> 1;
}

/** Unpacks n packed blocks at w, or of floats n weights of a row, to the panels of 8 rows each. */
// @ts-ignore: decorator
@inline
export function unpack_as<F>(w: usize, n: i32, panel: usize): void {
  if (fmt.is_float<F>()) unpack_f32<F>(w, n, panel);
  else if (fmt.grid<F>()) grid_to_panel<F>(w, n, panel);
  else if (fmt.levels<F>()) unpack_levels(w, n, panel, changetype<F>(0).levels(), changetype<F>(0).factor());
  else if (fmt.trits<F>()) unpack_trits(w, n, panel);
  else if (fmt.few_bits<F>()) unpack_bits<F>(w, n, pairs<F>(), panel);
  else unpack<F>(w, n, panel);
}

/** A column block times n blocks of a panel, by the loop of the format. (Those of floats are alike: product_f32.ts.) */
// @ts-ignore: decorator
@inline
export function tile_as<F>(w: usize, a: usize, acc: usize, n: i32): void {
  if (fmt.is_float<F>()) unreachable();
  else if (tile_loop<F>() == GEMM_8X4_GRID) gemm_8x4_grid(w, a, acc, n);
  else if (fmt.of_grid<F>() && GRID_I16) gemm_8x4_i16<Codes8>(w, a, acc, n);
  else if (fmt.of_grid<F>()) gemm_8x4<Codes7>(w, a, acc, n);
  else if (tile_loop<F>() == GEMM_8X4_BITS) gemm_8x4_bits(w, a, acc, n * pairs<F>());
  else if (tile_loop<F>() == GEMM_8X4) gemm_8x4<F>(w, a, acc, n);
  else if (tile_loop<F>() == GEMM_8X4_I16) gemm_8x4_i16<F>(w, a, acc, n);
  else gemm_8x4_nibbles<F>(w, a, acc, n);
}

/** One column times 16 rows of n blocks (of floats n weights), by the loop of the format. */
// @ts-ignore: decorator
@inline
export function column_as<F>(w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  if (fmt.is_float<F>()) {
    gemv_f32_16x1<F>(w, n, a, y);
    return;
  }
  must_fit<F>();
  if (fmt.grid<F>()) grid_column<F>(w, n, a, y, scratch);
  else if (fmt.levels<F>()) gemv_16x1_levels(w, n, a, y, scratch, changetype<F>(0).levels(), changetype<F>(0).factor());
  else if (column_loop<F>() == GEMV_16X1_TRITS) gemv_16x1_trits(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_NVFP4) gemv_16x1_nvfp4<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_BITS) gemv_16x1_bits<F>(w, n, pairs<F>(), a, y);
  else if (column_loop<F>() == GEMV_16X1_Q6_K) gemv_16x1_q6_K<F>(w, n, a, y, scratch);
  else if (column_loop<F>() == GEMV_16X1_Q2_K) gemv_16x1_q2_K<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_S16) gemv_16x1_s16<F>(w, n, a, y);
  else if (column_loop<F>() == GEMV_16X1_SIGNS) gemv_16x1_signs<F>(w, n, a, y);
  else gemv_16x1<F>(w, n, a, y);
}

/** Two and more columns times 16 rows, for the formats that take it (TAKES_16XN of facts.ts). */
// @ts-ignore: decorator
@inline
export function few_columns_as<F>(w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  if (!fmt.is_float<F>() && takes_16xn<F>()) gemm_16xn<F>(w, n, a, stride, ncols, acc, scratch);
  else unreachable();
}

// @ts-ignore: decorator
@inline
function must_fit<F>(): void {
  if (!fmt.of_grid<F>() && !fmt.eight_bits<F>() && !fmt.fits_i16<F>())
    ERROR('i16 has no room for the sums of such codes: give them as signed ones of 8 bits (dot_signed.ts)');
}

// ---- Formats of grids: one function does for all, and calls F.open by its place in the function table, which stands behind the address of a function ----

function open_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, o: usize): void => changetype<F>(0).open(w, o)));
}

// @ts-ignore: decorator
@inline
function grid_to_panel<F>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  const opened = panel + 2 * PANEL();
  unpack_grid(w, n, panel, opened, f.bytes(), f.factor(), open_index<F>(), fmt.fours<F>(), fmt.has_signs<F>(), fmt.even<F>() ? 1 : 0);
}

// @ts-ignore: decorator
@inline
function grid_column<F>(w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  const f = changetype<F>(0);
  gemv_16x1_grid(w, n, a, y, scratch, f.bytes(), f.factor(), open_index<F>(), fmt.fours<F>(), fmt.has_signs<F>());
}
