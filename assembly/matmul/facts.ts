/**
 * What the walks over packed weights (product.ts, product_f32.ts, repack.ts, row.ts) ask of a format at run time, as fields of one word. by_type.ts has the
 * word of a type id, so that each walk is one function for all formats.
 */
import { TYPE_ACT } from './act';
import * as fmt from './format/format';
import { Codes7, Codes8, GRID_I16 } from './format/grid';
import { act_type, column_loop, takes_16xn, tile_loop } from './loops';
import { scaled_codes } from './panel_size';

/** A format of format/float.ts: packed row by row, not in blocks. */
export const IS_FLOAT: u64 = 1;
/** It takes gemm_16xn for few columns. */
export const TAKES_16XN: u64 = 1 << 1;
/** A panel has runs of 64 weights (format/few_bits.ts), and signed codes of 8 bits. */
export const FEW_BITS: u64 = 1 << 2;
export const EIGHT_BITS: u64 = 1 << 3;
/** f16 that is not finite is looked for in all of a packed row. */
export const ALL_F16: u64 = 1 << 4;

// Where the numbers begin, each with so many bits that the next one has room.
const ROW_BYTES: i32 = 5; // 9 bits
const LOG_SUBS: i32 = 14; // 2
const ACT: i32 = 16; // 5
const TILE_LOOP: i32 = 21; // 5
const COLUMN_LOOP: i32 = 26; // 5
const F16_VECTORS: i32 = 31; // 2
const SCALES: i32 = 33; // 2
const MINIMA: i32 = 35; // 2
const CENTRE: i32 = 37; // 7

// @ts-ignore: decorator
@inline
function flag(bit: u64, is: bool): u64 {
  return is ? bit : 0;
}

/** The word of a format, a constant. */
// @ts-ignore: decorator
@inline
export function facts_of<F>(): u64 {
  const f = changetype<F>(0);
  if (fmt.is_float<F>()) return IS_FLOAT | flag(ALL_F16, isDefined(changetype<F>(0).finite)) | (<u64>f.bytes() << ROW_BYTES);
  return (
    flag(TAKES_16XN, takes_16xn<F>()) |
    (<u64>(f.bytes() >> 4) << ROW_BYTES) |
    (<u64>ctz(fmt.subs<F>()) << LOG_SUBS) |
    (<u64>(act_type<F>() - TYPE_ACT) << ACT) |
    (<u64>tile_loop<F>() << TILE_LOOP) |
    (<u64>column_loop<F>() << COLUMN_LOOP) |
    (<u64>fmt.f16_vectors<F>() << F16_VECTORS) |
    panel_facts_of<F>()
  );
}

// @ts-ignore: decorator
@inline
function panel_facts_of<F>(): u64 {
  if (fmt.of_grid<F>()) return GRID_I16 ? panel_of<Codes8>() : panel_of<Codes7>();
  return panel_of<F>();
}

/** Of the panel of F. */
// @ts-ignore: decorator
@inline
function panel_of<F>(): u64 {
  const scales = !fmt.super_block<F>() || scaled_codes<F>() ? 0 : fmt.f32_scales<F>() ? 3 : fmt.s16<F>() ? 2 : 1;
  const minima = !fmt.has_min<F>() ? 0 : !fmt.super_block<F>() ? 1 : fmt.s16<F>() ? 3 : 2;
  return (
    flag(FEW_BITS, fmt.few_bits<F>()) |
    flag(EIGHT_BITS, fmt.eight_bits<F>()) |
    (<u64>scales << SCALES) |
    (<u64>minima << MINIMA) |
    (<u64>fmt.centre<F>() << CENTRE)
  );
}

// @ts-ignore: decorator
@inline
function field(facts: u64, at: i32, bits: i32): i32 {
  return <i32>(facts >> at) & ((1 << bits) - 1);
}

/** Bytes of one row's block, of floats those of a number. */
// @ts-ignore: decorator
@inline
export function row_bytes(facts: u64): usize {
  return field(facts, ROW_BYTES, 9);
}

/** Sub-blocks of a block. */
// @ts-ignore: decorator
@inline
export function subs(facts: u64): i32 {
  return 1 << field(facts, LOG_SUBS, 2);
}

/** Blocks of a row of ne00 weights. */
// @ts-ignore: decorator
@inline
export function blocks_of(facts: u64, ne00: i32): i32 {
  return ne00 >> (field(facts, LOG_SUBS, 2) + 5);
}

/** The type of activations (act.ts). */
// @ts-ignore: decorator
@inline
export function act_type_of(facts: u64): u32 {
  return TYPE_ACT + field(facts, ACT, 5);
}

/** Loops (loops.ts) for four columns and for one. */
// @ts-ignore: decorator
@inline
export function tile_loop_of(facts: u64): i32 {
  return field(facts, TILE_LOOP, 5);
}

// @ts-ignore: decorator
@inline
export function column_loop_of(facts: u64): i32 {
  return field(facts, COLUMN_LOOP, 5);
}

/** Vectors of f16 at the start of a packed block, all of which must be finite. */
// @ts-ignore: decorator
@inline
export function f16_vectors(facts: u64): i32 {
  return field(facts, F16_VECTORS, 2);
}

/** How many integer scales a panel's sub-block has behind its codes (its halves); 3: two that are f32, and no d. */
// @ts-ignore: decorator
@inline
export function panel_scales(facts: u64): i32 {
  return field(facts, SCALES, 2);
}

/** A panel's minima: 0 none, 1 an f32, 2 an integer for each sub-block, 3 for each half. */
// @ts-ignore: decorator
@inline
export function panel_minima(facts: u64): i32 {
  return field(facts, MINIMA, 2);
}

/** What is taken off every code of a panel. */
// @ts-ignore: decorator
@inline
export function panel_centre(facts: u64): i32 {
  return field(facts, CENTRE, 7);
}
