/**
 * Number of weights that are unpacked to a panel at a time, and the bytes of a panel's fields
 * (panel.ts).
 */
import { QUANT_BYTES } from './dot';
import { I16_CODES, SIGNED_CODES } from './dot_signed';
import * as fmt from './format/format';
import { Codes7, Codes8, GRID_I16 } from './format/grid';

/** Weights of a row unpacked at a time. */
export const KC: i32 = 512;

/** Bytes of the codes of a sub-block of 8 rows (for 8-bit codes: SIGNED_CODES). */
export const CODES: usize = 256 * QUANT_BYTES;

/** The larger of two. Unlike max(), the compiler evaluates it at compile time. */
@inline
export function most(a: usize, b: usize): usize {
  return a > b ? a : b;
}

/** Bytes that KC weights of 8 rows of format F take. */
@inline
export function panel_bytes<F>(): usize {
  if (fmt.of_grid<F>()) return GRID_I16 ? panel_bytes<Codes8>() : MARKS() + 16;
  if (fmt.few_bits<F>()) return <usize>(KC / 64) * (2 * CODES + factor_bytes<F>());
  return <usize>(KC / 32 / fmt.subs<F>()) * (<usize>fmt.subs<F>() * sub_bytes<F>() + minima_bytes<F>() + factor_bytes<F>());
}

/** Offset of the marks in a panel of grids and levels (panel_grid.ts): after KC weights. */
@inline
export function MARKS(): usize {
  return panel_bytes<Codes7>();
}

/** True if the codes are already multiplied by the integer scales. */
@inline
export function scaled_codes<F>(): bool {
  return I16_CODES && fmt.eight_bits<F>() && fmt.super_block<F>();
}

/** Vectors of one group's minima in a super-block. */
@inline
export function minima_vectors<F>(): i32 {
  return fmt.super_block<F>() && fmt.has_min<F>() ? (fmt.s16<F>() ? 8 : 4) : 0;
}

/** Bytes of both groups' minima. */
@inline
export function minima_bytes<F>(): usize {
  return <usize>minima_vectors<F>() << 5;
}

/** Bytes of both groups' d and dmin. */
@inline
export function factor_bytes<F>(): usize {
  if (fmt.f32_scales<F>()) return 0;
  return fmt.has_min<F>() ? 64 : 32;
}

/** Bytes of a sub-block's codes and integer scales in a panel. */
@inline
export function sub_bytes<F>(): usize {
  return (fmt.eight_bits<F>() ? SIGNED_CODES : CODES) + (!fmt.super_block<F>() || scaled_codes<F>() ? 0 : fmt.s16<F>() ? 64 : 32);
}
