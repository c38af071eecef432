/** The f16 cache as f32: word by word in registers, or a part at a time for prompts: K [n / 16][hd][16], V [hd / 16][PART][16]. */
import { PART } from './kv_cache';

// Run-time values, so that they stay in registers (V8 builds a constant anew at every use).
const WIDEN = memory.data<u32>([0x8fffe000, 0x2000], 4);
/** Sign, exponent and mantissa of an f16 whose bits were shifted into an f32. */
// @ts-ignore: decorator
@inline
export function f16_mask(): v128 {
  return v128.load32_splat(WIDEN);
}
/** (2^13, 0) four times: a dot with it shifts the even ones of eight i16 to where an f32 has them. */
// @ts-ignore: decorator
@inline
export function f16_even(): v128 {
  return v128.load32_splat(WIDEN, 4);
}

// Eight f16 as f32 * 2^-112 (their bits moved into place): attention folds the factor into queries and probabilities. Two operations for four.
// @ts-ignore: decorator
@inline
export function even_f16(h: v128, even: v128, mask: v128): v128 {
  return v128.and(i32x4.dot_i16x8_s(h, even), mask);
}
// @ts-ignore: decorator
@inline
export function odd_f16(h: v128, mask: v128): v128 {
  return v128.and(i32x4.shr_s(h, 3), mask);
}
/** Stores eight results in order whose even and odd ones are apart. */
// @ts-ignore: decorator
@inline
export function store_zipped(y: usize, even: v128, odd: v128): void {
  v128.store(y, i8x16.shuffle(even, odd, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
  v128.store(y, i8x16.shuffle(even, odd, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31), 16);
}

/** n f16 (a multiple of 8) to f32. */
export function widen_f16(x: usize, y: usize, n: usize): void {
  const even = f16_even(), mask = f16_mask();
  for (let i: usize = 0; i < n; i += 8, x += 16, y += 32) {
    const h = v128.load(x);
    store_zipped(y, even_f16(h, even, mask), odd_f16(h, mask));
  }
}

/** n values of hd dimensions, `plane` bytes between one 16 of them and the next. */
export function widen_v(v: usize, n: i32, hd: i32, plane: usize, y: usize): void {
  for (let i = 0; i < hd; i += 16, v += plane, y += <usize>PART << 6) widen_f16(v, y, <usize>n << 4);
}
