/**
 * The KV cache of one layer, in the order in which attention reads it: as f16, f32, q8_0 or q4_0;
 * or, for other types, as ggml's own rows. `cells` is a multiple of KV_SPLIT, or less than KV_SPLIT
 * and a multiple of 16. head_dim is padded with zeros to a multiple of 16, or of 32 for block
 * types.
 *
 *   K | [n_head_kv][cells / 16][head_dim][16 cells]
 *     | neighbouring keys side by side, so that scores need no horizontal sums
 *   V | [n_head_kv][cells / KV_SPLIT][head_dim / 16][KV_SPLIT][16 dims]
 *     | 16 dimensions of one value side by side
 *
 * The number is 16, because one row of queries or probabilities then makes 4 chains of madds, and
 * because K and V are then read sequentially. With groups of 8, prefetchers did not see a stream.
 *
 * Block types have the codes and scales of ggml's blocks, in the order of integer products:
 *
 *   K | a packed matrix with rows of head_dim (matmul/format/q4_0.ts, q8_0.ts): 16 cells a row
 *     | block
 *   V | [n_head_kv][cells / KV_SPLIT]( [head_dim / 16][KV_SPLIT / 2][16 dims of 2 cells]
 *     |   | scales f16 [head_dim / 32][KV_SPLIT] ), where 2 cells and 16 dimensions are
 *     | q8_0: 32 bytes: cell 0 and cell 1 of dimension 0, of dimension 1, ...
 *     | q4_0: 8 u16: dimension m (0..3) of cell 0, of cell 1, ...; their nibbles, from the lowest,
 *     |       are dimensions m, 4 + m, 8 + m, 12 + m
 *
 * Other types (bf16, q4_1, q5_0, q5_1, iq4_nl) are kept as rows, cell after cell: K and V
 * [n_head_kv][cells][head_dim]. Attention widens a split of them to f32 (kv_widen.ts), so that a
 * type only needs from_float and dequantize_row.
 *
 * So in every order a head takes cells * kv_row_bytes, as in ggml.
 */
import { KV_SPLIT, KV_STORE_SCRATCH_SIZE, KV_STORE_SCRATCH_VALUES, K_CELLS } from '../layout';
import { code_offset } from '../matmul/dot';
import { packed_code } from '../matmul/dot_signed';
import { range_start, range_end } from '../runtime/schedule';
import { Op, row_of } from '../runtime/tensor';
import { F16, F32, Q4_0, blck_size, has_blocks, type_size } from '../type/ids';
import { WORK_BYTES } from '../type/block/work';
import { from_float, quantize_row } from '../type/traits';
import { fwht_row } from './fwht';

/** Bytes of hd elements (the padded head_dim) of one cell. */
@inline
export function kv_row_bytes(type: u32, hd: i32): usize {
  return <usize>(hd / blck_size(type)) * type_size(type);
}

/**
 * True if a cache of this type is kept as ggml's rows, which attention converts to f32
 * (kv_widen.ts).
 */
@inline
export function has_rows(type: u32): bool {
  return type != F16 && type != F32 && !has_blocks(type);
}

@inline
function block_bytes(type: u32): usize {
  return type == Q4_0 ? 18 : 34;
}

/**
 * Address of the K_CELLS keys from cell `cell` (a multiple of K_CELLS) on, for head `head` of the K
 * at k.
 */
export function k_group(k: usize, type: u32, head: i32, cells: i32, hd: i32, cell: i32): usize {
  return k + (<usize>head * cells + cell) * kv_row_bytes(type, hd);
}

/**
 * Address of the first 16 dimensions of cell `cell` (block types: an even one) for head `head` of
 * the V at v. The next 16 are v_plane bytes further.
 */
export function v_cell(v: usize, type: u32, head: i32, cells: i32, hd: i32, cell: i32): usize {
  if (has_rows(type)) return k_group(v, type, head, cells, hd, cell);
  const in_split = cell % KV_SPLIT;
  return v + (<usize>head * cells + (cell - in_split)) * kv_row_bytes(type, hd) + <usize>in_split * v_step(type);
}
/** Bytes of 16 dimensions of a cell of V. */
@inline
export function v_step(type: u32): usize {
  return type == F16 ? 32 : type == F32 ? 64 : type == Q4_0 ? 8 : 16;
}
/** Bytes from 16 dimensions of V to the next 16 of the same cell. */
export function v_plane(type: u32, cells: i32): usize {
  return <usize>min(KV_SPLIT, cells) * v_step(type);
}
/**
 * Block types: bytes from a split's first values to its first scales. The scales of the next 32
 * dimensions are 2 * min(KV_SPLIT, cells) bytes further.
 */
export function v_scales(type: u32, cells: i32, hd: i32): usize {
  return <usize>(hd >> 4) * v_plane(type, cells);
}

/** Offsets in the scratch, after KV_STORE_SCRATCH: the quantisers' work area, and a rotated row. */
const WORK: usize = KV_STORE_SCRATCH_SIZE;
const ROTATED: usize = WORK + WORK_BYTES;

/**
 * set_rows into the cache: row t of src0 [head_dim, n_head_kv, n_tokens], f32, goes to cell src1[t]
 * of dst; without src1, to cell t.
 *
 *   p0      | padded head_dim
 *   p1      | cells
 *   p2      | 0: K order, 1: V order
 *   p3      | number of elements rotated together (fwht.ts), or 0
 *   scratch | ROTATED bytes, and with p3 a row
 */
export function kv_store(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const type = op.dst.type;
  const hd = op.p0;
  const cells = op.p1;
  const is_v = op.p2 != 0;
  const heads = src0.ne1;
  const rows = heads * src0.ne2;
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const h = r % heads;
    const t = r / heads;
    let x = row_of(src0, h, t, 0);
    if (op.p3) {
      fwht_row(x, scratch + ROTATED, src0.ne0, op.p3, 0);
      x = scratch + ROTATED;
    }
    const cell = changetype<usize>(op.src1) ? load<i32>(op.src1.data + (<usize>t << 2)) : t;
    if (has_rows(type)) {
      store_row(type, x, k_group(op.dst.data, type, h, cells, hd, cell), src0.ne0, hd, scratch);
    } else if (type == F16 || type == F32) {
      const y = is_v ? v_cell(op.dst.data, type, h, cells, hd, cell) : k_group(op.dst.data, type, h, cells, hd, cell & -K_CELLS);
      store_elements(type, x, y, src0.ne0, hd, cell, cells, is_v, scratch);
    } else {
      const first = is_v ? cell - (cell % KV_SPLIT) : cell & -K_CELLS;
      const y = is_v ? v_cell(op.dst.data, type, h, cells, hd, first) : k_group(op.dst.data, type, h, cells, hd, first);
      store_blocks(type, x, y, src0.ne0, hd, cell - first, cells, is_v, scratch);
    }
  }
}

/**
 * Stores n elements and zeros up to hd. (The zeros are needed: a cache that is an intermediate
 * tensor reuses memory, and 0 * NaN is NaN.)
 */
function store_elements(type: u32, x: usize, y: usize, n: i32, hd: i32, cell: i32, cells: i32, is_v: bool, scratch: usize): void {
  const plane = v_plane(type, cells);
  // V: 16 dimensions, then those of the next plane. K: one dimension of 16 keys, then the next
  // dimension.
  if (!is_v) y += <usize>(cell & (K_CELLS - 1)) << (type == F16 ? 1 : 2);
  for (let i = 0; i < hd; i += 16, x += 64) {
    quantize_row(type, padded(x, n - i, 16, scratch), is_v ? y : scratch, 16);
    if (is_v) {
      y += plane;
    } else if (type == F16) {
      for (let j: usize = 0; j < 32; j += 2, y += K_CELLS << 1) store<u16>(y, load<u16>(scratch + j));
    } else {
      for (let j: usize = 0; j < 64; j += 4, y += K_CELLS << 2) store<u32>(y, load<u32>(scratch + j));
    }
  }
}

/** Stores n elements, and zeros up to hd, as a row. */
function store_row(type: u32, x: usize, y: usize, n: i32, hd: i32, scratch: usize): void {
  for (let i = 0; i < hd; i += 32, x += 128) {
    const width = min(32, hd - i);
    from_float(type, padded(x, n - i, 32, scratch), y, width, scratch + WORK);
    y += kv_row_bytes(type, width);
  }
}

/**
 * Address of `width` values (at most 32), of which the row has n: x, or a copy padded with zeros.
 */
@inline
function padded(x: usize, n: i32, width: i32, scratch: usize): usize {
  if (n >= width) return x;
  memory.fill(scratch + KV_STORE_SCRATCH_VALUES, 0, 128);
  memory.copy(scratch + KV_STORE_SCRATCH_VALUES, x, <usize>max(0, n) << 2);
  return scratch + KV_STORE_SCRATCH_VALUES;
}

/**
 * Quantises n elements, and zeros up to hd, to cell `cell` of the K_CELLS keys or of the split of
 * values at y.
 */
function store_blocks(type: u32, x: usize, y: usize, n: i32, hd: i32, cell: i32, cells: i32, is_v: bool, scratch: usize): void {
  const plane = v_plane(type, cells);
  let scales = y + v_scales(type, cells, hd) + (<usize>cell << 1);
  for (let i = 0; i < hd; i += 32, x += 128) {
    quantize_row(type, padded(x, n - i, 32, scratch), scratch, 32);
    if (is_v) {
      store<u16>(scales, load<u16>(scratch));
      store_value(type, scratch + 2, y + <usize>(cell >> 1) * 2 * v_step(type), plane, <usize>(cell & 1));
      scales += <usize>min(KV_SPLIT, cells) << 1;
      y += 2 * plane;
    } else {
      store<u16>(y + (<usize>cell << 1), load<u16>(scratch));
      store_key(type, scratch + 2, y + 2 * K_CELLS, cell);
      y += <usize>K_CELLS * block_bytes(type);
    }
  }
}

/** Stores a block's codes as row `cell` of a row block, whose quads begin at y. */
function store_key(type: u32, codes: usize, y: usize, cell: i32): void {
  y += <usize>((cell >> 2) << 4);
  for (let i: usize = 0; i < 16; i++) {
    const to = y + code_offset(cell & 3, <i32>i & 3);
    if (type == Q4_0) {
      store<u8>(to + ((i >> 2) << 6), load<u8>(codes + i));
    } else {
      store<u8>(to + ((i >> 2) << 7), packed_code(load<u8>(codes + i)));
      store<u8>(to + ((i >> 2) << 7) + 64, packed_code(load<u8>(codes + i, 16)));
    }
  }
}

/**
 * Stores a block's codes to two planes. y: address of the pair of cells in the first plane; odd:
 * which cell of the pair it is.
 */
function store_value(type: u32, codes: usize, y: usize, plane: usize, odd: usize): void {
  if (type == Q4_0) {
    for (let m: usize = 0; m < 4; m++) {
      // Dimension i is the low nibble of byte i, dimension 16 + i the high one.
      const a = load<u8>(codes + m);
      const b = load<u8>(codes + m, 4);
      const c = load<u8>(codes + m, 8);
      const d = load<u8>(codes + m, 12);
      const to = y + (m << 2) + (odd << 1);
      store<u16>(to, <u16>((a & 15) | ((b & 15) << 4) | ((<u32>c & 15) << 8) | ((<u32>d & 15) << 12)));
      store<u16>(to + plane, <u16>((a >> 4) | (b & 0xf0) | ((<u32>c >> 4) << 8) | ((<u32>d >> 4) << 12)));
    }
  } else {
    for (let i: usize = 0; i < 16; i++) {
      store<u8>(y + (i << 1) + odd, load<u8>(codes + i));
      store<u8>(y + plane + (i << 1) + odd, load<u8>(codes + i, 16));
    }
  }
}
