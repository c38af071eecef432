/**
 * The KV cache of one layer, in the order attention reads it: as f16, f32, q8_0 or q4_0. `cells` is a multiple of PART, or less than PART and
 * one of 16; the padded head_dim (zeros behind the model's) is a multiple of 16, or of 32 for the block types.
 *
 *   K  [n_head_kv][cells / 16][head_dim][16 cells]                 neighbouring keys side by side, so that scores need no horizontal sums
 *   V  [n_head_kv][cells / PART][head_dim / 16][PART][16 dims]     16 dimensions of one value side by side
 *
 * 16, because one row of queries or probabilities makes 4 chains of madds from them, and both are read from one end to the other: where two
 * groups of 8 were read side by side, K took 1.7 times as long from DRAM (processors fetch ahead along one line of addresses).
 * Block types: bytes of ggml's blocks, K [cells / 16][head_dim / 32][quant bytes, each of 16 cells | 16 scales f16], V [head_dim / 32][PART][block].
 * So a head takes cells * row bytes in either order, as it would in ggml's.
 */
import { f16_to_f32, f32_to_f16, load_f16x4 } from '../simd';
import { split_from, split_to } from '../schedule';
import { Op, row_of } from '../tensor';
import { F16, F32, Q4_0 } from '../type_ids';
import { quantize_row } from '../type_traits';

/** Bytes of head_dim elements. */
// @ts-ignore: decorator
@inline
export function kv_row_bytes(type: u32, hd: i32): usize {
  if (type == F16) return <usize>hd << 1;
  if (type == F32) return <usize>hd << 2;
  return <usize>(hd >> 5) * block_bytes(type);
}

// @ts-ignore: decorator
@inline
function block_bytes(type: u32): usize {
  return type == Q4_0 ? 18 : 34;
}

/** Keys of K that lie side by side. */
export const K_CELLS: i32 = 16;
/** Cells of a part of attention: K and V of a part and head (2 x 64 KiB as f32 at head_dim 64) stay in L2, and 1024 cells give 2 threads 4 x n_head_kv items. */
export const PART: i32 = 256;

/** Address of K's K_CELLS keys from cell `cell` (a multiple of them) of head `head`. */
export function k_group(k: usize, type: u32, head: i32, cells: i32, hd: i32, cell: i32): usize {
  return k + (<usize>head * cells + cell) * kv_row_bytes(type, hd);
}

/** Address of the first 16 (block types: 32) dimensions of V's `cell` of head `head`; v_step bytes to the next cell, v_plane to the next dimensions. */
export function v_cell(v: usize, type: u32, head: i32, cells: i32, hd: i32, cell: i32): usize {
  const in_part = cell % PART;
  return v + (<usize>head * cells + (cell - in_part)) * kv_row_bytes(type, hd) + <usize>in_part * v_step(type);
}
// @ts-ignore: decorator
@inline
function v_step(type: u32): usize {
  return type == F16 ? 32 : type == F32 ? 64 : block_bytes(type);
}
export function v_plane(type: u32, cells: i32): usize {
  return <usize>min(PART, cells) * v_step(type);
}

/**
 * set_rows into the cache: src0 [head_dim, n_head_kv, n_tokens] f32 -> cell src1[t] of dst; without src1, cell t.
 * p0 = padded head_dim, p1 = cells, p2 = 0: K order, 1: V order. scratch: 192 bytes.
 */
export function kv_store(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0, type = op.dst.type;
  const hd = op.p0, cells = op.p1, is_v = op.p2 != 0;
  const heads = src0.ne1, rows = heads * src0.ne2;
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const h = r % heads, t = r / heads;
    const x = row_of(src0, h, t, 0);
    const cell = changetype<usize>(op.src1) ? load<i32>(op.src1.data + (<usize>t << 2)) : t;
    const y = is_v ? v_cell(op.dst.data, type, h, cells, hd, cell) : k_group(op.dst.data, type, h, cells, hd, cell & -K_CELLS);
    if (type == F16 || type == F32) store_elements(type, x, y, src0.ne0, hd, cell, cells, is_v);
    else store_blocks(type, x, y, src0.ne0, cell, cells, is_v, scratch);
  }
}

/** n elements and zeros up to hd: a cache that is an intermediate tensor has bytes of others there, and 0 * NaN is NaN. */
function store_elements(type: u32, x: usize, y: usize, n: i32, hd: i32, cell: i32, cells: i32, is_v: bool): void {
  const size: usize = type == F16 ? 2 : 4, key = <usize>(cell & (K_CELLS - 1)) * size, plane = v_plane(type, cells);
  for (let i = 0; i < hd; i++) {
    // V: 16 dimensions, then the next plane; K: one dimension of 16 keys after the other.
    const at = y + (is_v ? <usize>(i >> 4) * plane + <usize>(i & 15) * size : <usize>(i * K_CELLS) * size + key);
    const v = i < n ? load<f32>(x + (<usize>i << 2)) : 0;
    if (type == F16) store<u16>(at, <u16>f32_to_f16(v));
    else store<f32>(at, v);
  }
}

function store_blocks(type: u32, x: usize, y: usize, n: i32, cell: i32, cells: i32, is_v: bool, scratch: usize): void {
  const bytes = block_bytes(type), quants = bytes - 2, key = <usize>(cell & (K_CELLS - 1));
  for (let i = 0; i < n; i += 32, x += 128) {
    let from = x;
    if (n - i < 32) {
      from = scratch + 64;
      memory.fill(from, 0, 128);
      memory.copy(from, x, <usize>(n - i) << 2);
    }
    if (is_v) {
      quantize_row(type, from, y, 32);
      y += v_plane(type, cells);
      continue;
    }
    quantize_row(type, from, scratch, 32);
    for (let j: usize = 0; j < quants; j++) store<u8>(y + j * K_CELLS + key, load<u8>(scratch + 2 + j));
    store<u16>(y + quants * K_CELLS + key * 2, load<u16>(scratch));
    y += bytes * K_CELLS;
  }
}

// ---- Parts as f32: K [n / 16][hd][16], V [hd / 16][PART][16] ----

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

function widen_f16(x: usize, y: usize, n: usize): void {
  const even = f16_even(), mask = f16_mask();
  for (let i: usize = 0; i < n; i += 8, x += 16, y += 32) {
    const h = v128.load(x);
    store_zipped(y, even_f16(h, even, mask), odd_f16(h, mask));
  }
}

/** n keys (a multiple of K_CELLS) from k_group() on. */
export function load_k(type: u32, k: usize, n: i32, hd: i32, y: usize): void {
  if (type == F16) return widen_f16(k, y, <usize>n * hd);
  const quants = block_bytes(type) - 2, eight = i16x8.splat(8);
  for (let blocks = n / K_CELLS * (hd >> 5); blocks > 0; blocks--, k += block_bytes(type) * K_CELLS, y += 32 * K_CELLS * 4) {
    for (let half: usize = 0; half < 2; half++) {
      const d = k + quants * K_CELLS + half * 16, d0 = load_f16x4(d), d1 = load_f16x4(d + 8);
      let p = k + half * 8, to = y + half * 32;
      for (let j: usize = 0; j < quants; j++, p += K_CELLS, to += K_CELLS * 4) {
        if (type == Q4_0) {
          const q = v128.load8x8_u(p);
          store_scaled(to, i16x8.sub(v128.and(q, i16x8.splat(15)), eight), d0, d1);
          store_scaled(to + 16 * K_CELLS * 4, i16x8.sub(i16x8.shr_u(q, 4), eight), d0, d1);
        } else store_scaled(to, v128.load8x8_s(p), d0, d1);
      }
    }
  }
}

/** Eight i16 as f32 times their scales. */
// @ts-ignore: decorator
@inline
function store_scaled(y: usize, q: v128, d0: v128, d1: v128): void {
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(q)), d0));
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(q)), d1), 16);
}

/** n values from v_cell() on. */
export function load_v(type: u32, v: usize, n: i32, hd: i32, cells: i32, y: usize): void {
  const plane = v_plane(type, cells), out = <usize>PART << 6;
  if (type == F16) {
    for (let i = 0; i < hd; i += 16, v += plane, y += out) widen_f16(v, y, <usize>n << 4);
    return;
  }
  const low = i8x16.splat(15), eight = i8x16.splat(8);
  for (let i = 0; i < hd; i += 32, v += plane, y += 2 * out) {
    for (let c = 0, p = v, to = y; c < n; c++, p += block_bytes(type), to += 64) {
      const d = f32x4.splat(f16_to_f32(load<u16>(p)));
      let a = v128.load(p, 2), b = a;
      if (type == Q4_0) {
        a = i8x16.sub(v128.and(a, low), eight);
        b = i8x16.sub(v128.and(i16x8.shr_u(b, 4), low), eight);
      } else b = v128.load(p, 18);
      store_scaled(to, i16x8.extend_low_i8x16_s(a), d, d);
      store_scaled(to + 32, i16x8.extend_high_i8x16_s(a), d, d);
      store_scaled(to + out, i16x8.extend_low_i8x16_s(b), d, d);
      store_scaled(to + out + 32, i16x8.extend_high_i8x16_s(b), d, d);
    }
  }
}
