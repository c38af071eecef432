/**
 * Layout of the work area of quantisers that search for scales: WORK_BYTES of the caller's memory,
 * one area for each thread. Nothing in it outlives a call. Offsets are in bytes; pointers into it
 * are `work + NAME`.
 */

/** u8[256]: the code of every element of a block. */
@inline
export const L: usize = 0;
/** f32[32]: importance of the elements of one sub-block. */
@inline
export const WEIGHT: usize = 256;
/** f32[16]: scale of every sub-block. */
@inline
export const SCALE: usize = 384;
/** f32[16]: minimum of every sub-block. */
@inline
export const MIN: usize = 448;
/** f32[16]: importance of every sub-block. */
@inline
export const SUM_WEIGHT: usize = 512;
/** u8[16] and u8[16]: codes of the scales and of the minima. */
@inline
export const LS: usize = 576;
@inline
export const LM: usize = 592;
/** f32: second result of a function. */
@inline
export const SCALAR: usize = 608;
/** v128[32 + 8]: codes and sums of four candidates, within one search. */
@inline
export const LANES: usize = 640;

@inline
export const WORK_BYTES: usize = LANES + (32 + 8) * 16;
