/**
 * The KV cache of one layer, in the order attention reads it: as f16, f32, q8_0 or q4_0. `cells` is a multiple of PART, or less than PART and
 * one of 16; the padded head_dim (zeros behind the model's) is a multiple of 16, or of 32 for the block types.
 *
 *   K  [n_head_kv][cells / 16][head_dim][16 cells]                 neighbouring keys side by side, so that scores need no horizontal sums
 *   V  [n_head_kv][cells / PART][head_dim / 16][PART][16 dims]     16 dimensions of one value side by side
 *
 * 16, because one row of queries or probabilities makes 4 chains of madds from them, and both are read from one end to the other: where two
 * groups of 8 were read side by side, K took 1.7 times as long from DRAM (processors fetch ahead along one line of addresses).
 *
 * Block types have the codes and scales of ggml's blocks, for integer products:
 *
 *   K  a packed matrix of head_dim columns (packed/q4_0.ts, packed/q8_0.ts): a group of 16 rows is 16 cells
 *   V  [n_head_kv][cells / PART]( [head_dim / 16][PART / 2][16 dims of 2 cells] | scales f16 [head_dim / 32][PART] ), 2 cells and 16 dimensions being
 *        q8_0  32 bytes: cell 0 and cell 1 of dimension 0, of dimension 1, ...
 *        q4_0  8 u16: dimension m (0..3) of cell 0, of cell 1, ...; their nibbles, the lowest first, are dimensions m, 4 + m, 8 + m, 12 + m
 *
 * So a head takes cells * row bytes in either order, as it would in ggml's.
 */
import { byte_of } from '../dot';
import { FLIP } from '../packed/wide';
import { f32_to_f16 } from '../simd';
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

/** Address of the first 16 dimensions of V's `cell` of head `head` (block types: an even one); v_plane bytes to the next 16. */
export function v_cell(v: usize, type: u32, head: i32, cells: i32, hd: i32, cell: i32): usize {
  const in_part = cell % PART;
  return v + (<usize>head * cells + (cell - in_part)) * kv_row_bytes(type, hd) + <usize>in_part * v_step(type);
}
/** Bytes of 16 dimensions of a cell. */
// @ts-ignore: decorator
@inline
export function v_step(type: u32): usize {
  return type == F16 ? 32 : type == F32 ? 64 : type == Q4_0 ? 8 : 16;
}
export function v_plane(type: u32, cells: i32): usize {
  return <usize>min(PART, cells) * v_step(type);
}
/** Block types: from a part's first values to its first scales; 2 * min(PART, cells) bytes to those of the next 32 dimensions. */
export function v_scales(type: u32, cells: i32, hd: i32): usize {
  return <usize>(hd >> 4) * v_plane(type, cells);
}

/** Where 32 values padded with zeros begin in the scratch: behind a block, whose type may have so many bytes at most (a test compares). */
const VALUES: usize = 64;

/**
 * set_rows into the cache: src0 [head_dim, n_head_kv, n_tokens] f32 -> cell src1[t] of dst; without src1, cell t.
 * p0 = padded head_dim, p1 = cells, p2 = 0: K order, 1: V order. scratch: VALUES + 128 bytes (src/graph/layout.ts KV_STORE_SCRATCH).
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
    if (type == F16 || type == F32) {
      const y = is_v ? v_cell(op.dst.data, type, h, cells, hd, cell) : k_group(op.dst.data, type, h, cells, hd, cell & -K_CELLS);
      store_elements(type, x, y, src0.ne0, hd, cell, cells, is_v);
    } else {
      const first = is_v ? cell - cell % PART : cell & -K_CELLS;
      const y = is_v ? v_cell(op.dst.data, type, h, cells, hd, first) : k_group(op.dst.data, type, h, cells, hd, first);
      store_blocks(type, x, y, src0.ne0, hd, cell - first, cells, is_v, scratch);
    }
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

/** To cell `cell` of the group of keys or the part of values at y. */
function store_blocks(type: u32, x: usize, y: usize, n: i32, hd: i32, cell: i32, cells: i32, is_v: bool, scratch: usize): void {
  const plane = v_plane(type, cells);
  let scales = y + v_scales(type, cells, hd) + (<usize>cell << 1);
  for (let i = 0; i < hd; i += 32, x += 128) {
    let from = x;
    if (n - i < 32) {
      from = scratch + VALUES;
      memory.fill(from, 0, 128);
      memory.copy(from, x, <usize>max(0, n - i) << 2);
    }
    quantize_row(type, from, scratch, 32);
    if (is_v) {
      store<u16>(scales, load<u16>(scratch));
      store_value(type, scratch + 2, y + <usize>(cell >> 1) * 2 * v_step(type), plane, <usize>(cell & 1));
      scales += <usize>min(PART, cells) << 1;
      y += 2 * plane;
    } else {
      store<u16>(y + (<usize>cell << 1), load<u16>(scratch));
      store_key(type, scratch + 2, y + 2 * K_CELLS, cell);
      y += <usize>K_CELLS * block_bytes(type);
    }
  }
}

/** A block's codes to row `cell` of a packed group: its quads, 64 bytes each, come after 16 scales. */
function store_key(type: u32, codes: usize, y: usize, cell: i32): void {
  y += <usize>(cell >> 2 << 4);
  for (let i: usize = 0; i < 16; i++) {
    const to = y + byte_of(cell & 3, <i32>i & 3);
    if (type == Q4_0) {
      store<u8>(to + (i >> 2 << 6), load<u8>(codes + i));
    } else {
      store<u8>(to + (i >> 2 << 7), load<u8>(codes + i) ^ FLIP);
      store<u8>(to + (i >> 2 << 7) + 64, load<u8>(codes + i, 16) ^ FLIP);
    }
  }
}

/** A block's codes to two planes; y: the first one's pair of cells, `odd`: which of the two. */
function store_value(type: u32, codes: usize, y: usize, plane: usize, odd: usize): void {
  if (type == Q4_0) {
    for (let m: usize = 0; m < 4; m++) {
      // Dimension i is the low nibble of byte i, dimension 16 + i the high one.
      const a = load<u8>(codes + m), b = load<u8>(codes + m, 4), c = load<u8>(codes + m, 8), d = load<u8>(codes + m, 12), to = y + (m << 2) + (odd << 1);
      store<u16>(to, <u16>(a & 15 | (b & 15) << 4 | (<u32>c & 15) << 8 | (<u32>d & 15) << 12));
      store<u16>(to + plane, <u16>(a >> 4 | b & 0xf0 | (<u32>c >> 4) << 8 | (<u32>d >> 4) << 12));
    }
  } else {
    for (let i: usize = 0; i < 16; i++) {
      store<u8>(y + (i << 1) + odd, load<u8>(codes + i));
      store<u8>(y + plane + (i << 1) + odd, load<u8>(codes + i, 16));
    }
  }
}
