/**
 * f16 keys and values widened to f32 * 2^-112: in registers, or for prompts one KV split at a time,
 * to K [n / 16][hd][16] and V [hd / 16][KV_SPLIT][16]. Rows of other types are always widened that
 * way, without the factor.
 */
import { ATTENTION_ROWS_WIDEN, KV_SPLIT, K_CELLS } from '../layout';
import { dequantize_row } from '../type/traits';
import { kv_row_bytes } from './kv_cache';

// Loaded from memory so that they stay in registers: V8 builds a constant at every use.
const WIDEN = memory.data<u32>([0x8fffe000, 0x2000], 4);
/** Mask of sign, exponent and mantissa of an f16 whose bits were shifted into an f32. */
@inline
export function f16_mask(): v128 {
  return v128.load32_splat(WIDEN);
}
/**
 * (2^13, 0) four times: a dot product with it shifts the even ones of eight i16 to an f32's place.
 */
@inline
export function f16_even(): v128 {
  return v128.load32_splat(WIDEN, 4);
}

// Eight f16 as f32 * 2^-112 (bits moved into place), even and odd ones separate, two operations for
// four. Attention multiplies the factor into queries and outputs.
@inline
export function even_f16(h: v128, even: v128, mask: v128): v128 {
  return v128.and(i32x4.dot_i16x8_s(h, even), mask);
}
@inline
export function odd_f16(h: v128, mask: v128): v128 {
  return v128.and(i32x4.shr_s(h, 3), mask);
}
/** Stores eight f32 in order, from the even and the odd ones. */
@inline
export function store_zipped(y: usize, even: v128, odd: v128): void {
  v128.store(y, i8x16.shuffle(even, odd, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
  v128.store(y, i8x16.shuffle(even, odd, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31), 16);
}

/** Widens n f16 (a multiple of 8) at x to f32 * 2^-112 at y. */
export function widen_f16(x: usize, y: usize, n: usize): void {
  const even = f16_even();
  const mask = f16_mask();
  for (let i: usize = 0; i < n; i += 8, x += 16, y += 32) {
    const h = v128.load(x);
    store_zipped(y, even_f16(h, even, mask), odd_f16(h, mask));
  }
}

/** Widens n values of hd dimensions at v to y. plane: bytes from 16 dimensions to the next. */
export function widen_v(v: usize, n: i32, hd: i32, plane: usize, y: usize): void {
  for (let i = 0; i < hd; i += 16, v += plane, y += <usize>KV_SPLIT << 6) widen_f16(v, y, <usize>n << 4);
}

/**
 * Widens n keys (a multiple of K_CELLS) of hd dimensions, stored as rows at k, to y. rows: f32
 * [ATTENTION_ROWS_WIDEN][hd] for work.
 */
export function widen_k_rows(type: u32, k: usize, n: i32, hd: i32, y: usize, rows: usize): void {
  const row_bytes = kv_row_bytes(type, hd);
  const floats = <usize>hd << 2;
  for (let cell = 0; cell < n; cell += ATTENTION_ROWS_WIDEN) {
    for (let i: usize = 0; i < <usize>ATTENTION_ROWS_WIDEN; i++, k += row_bytes) dequantize_row(type, k, rows + i * floats, hd);
    let to = y + ((<usize>(cell & -K_CELLS) * hd + (cell & (K_CELLS - 1))) << 2);
    for (let x = rows; x < rows + floats; x += 16, to += 4 * (K_CELLS << 2)) {
      const a = v128.load(x);
      const b = v128.load(x + floats);
      const c = v128.load(x + 2 * floats);
      const d = v128.load(x + 3 * floats);
      const ab = i32x4.shuffle(a, b, 0, 4, 1, 5);
      const cd = i32x4.shuffle(c, d, 0, 4, 1, 5);
      v128.store(to, i64x2.shuffle(ab, cd, 0, 2));
      v128.store(to, i64x2.shuffle(ab, cd, 1, 3), K_CELLS << 2);
      const ef = i32x4.shuffle(a, b, 2, 6, 3, 7);
      const gh = i32x4.shuffle(c, d, 2, 6, 3, 7);
      v128.store(to, i64x2.shuffle(ef, gh, 0, 2), 2 * (K_CELLS << 2));
      v128.store(to, i64x2.shuffle(ef, gh, 1, 3), 3 * (K_CELLS << 2));
    }
  }
}

/** Widens n values of hd dimensions, stored as rows at v, to y. row: f32 [hd] for work. */
export function widen_v_rows(type: u32, v: usize, n: i32, hd: i32, y: usize, row: usize): void {
  const row_bytes = kv_row_bytes(type, hd);
  for (let cell = 0; cell < n; cell++, v += row_bytes, y += 64) {
    dequantize_row(type, v, row, hd);
    for (let i: usize = 0; i < <usize>hd; i += 16) memory.copy(y + (<usize>KV_SPLIT << 2) * i, row + (i << 2), 64);
  }
}
