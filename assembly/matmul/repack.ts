/**
 * Plain rows of blocks, as GGUF has them, to row blocks of 16 rows and back, in place: 16 rows take the same bytes either way.
 * The rows that the last row block misses become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { row_codes } from './dot';
import { packed_codes } from './dot_signed';
import * as fmt from './format/format';
import { Eights, SignedEights, SignedFours } from './format/grid';
import { G0, ROWS } from './format/group';
import { row_of_grid } from './panel_grid';

// ---- What packing calls by its place in the function table (product.ts) ----

// @ts-ignore: decorator
@inline
function pack_index<F>(): u32 {
  return load<u32>(changetype<usize>((src: usize, stride: usize, w: usize): void => changetype<F>(0).pack(src, stride, w)));
}

/** Formats of grids. */
// @ts-ignore: decorator
@inline
export function open_index<F>(): u32 {
  return load<u32>(changetype<usize>((w: usize, from: i32, to: i32, o: usize): void => changetype<F>(0).open(w, from, to, o)));
}

/** 0 where the format has none. */
// @ts-ignore: decorator
@inline
function before_pack_index<F>(): u32 {
  if (!isDefined(changetype<F>(0).before_pack)) return 0;
  return load<u32>(changetype<usize>((from: usize, to: usize): void => changetype<F>(0).before_pack(from, to)));
}

/**
 * Packs row blocks [from, to) of the nrows x ne00 tensor at w; returns how many packed blocks have a scale that is not finite.
 * scratch: the bytes of 16 plain rows.
 */
// @ts-ignore: decorator
@inline
export function repack_of<F>(w: usize, ne00: i32, nrows: i32, from: i32, to: i32, scratch: usize): i32 {
  const bytes = changetype<F>(0).bytes();
  return repack(
    w,
    ne00 / fmt.weights<F>(),
    nrows,
    from,
    to,
    scratch,
    bytes,
    fmt.f16_vectors<F>() << 5,
    pack_index<F>(),
    before_pack_index<F>(),
  );
}

/** The same of rows of `blocks` blocks of `bytes` (of 16 rows), which begin with `scales` bytes of f16. One function for all formats, as product.ts. */
function repack(
  w: usize,
  blocks: i32,
  nrows: i32,
  from: i32,
  to: i32,
  scratch: usize,
  bytes: usize,
  scales: usize,
  pack_at: u32,
  before_pack_at: u32,
): i32 {
  const stride = <usize>blocks * (bytes / ROWS);
  let bad = 0;
  for (let i = from; i < to; i++) {
    const rows = w + <usize>i * ROWS * stride;
    copy_rows(rows, stride, nrows - i * ROWS, scratch);
    if (before_pack_at != 0) call_indirect<void>(before_pack_at, scratch, scratch + <usize>ROWS * stride);
    let src = scratch;
    for (let block = rows, end = rows + <usize>ROWS * stride; block < end; block += bytes) {
      call_indirect<void>(pack_at, src, stride, block);
      src += bytes / ROWS;
      let infinite = i32x4.splat(0);
      for (let p = block; p < block + scales; p += 16) {
        const h = v128.and(v128.load(p), i16x8.splat(0x7c00));
        infinite = v128.or(infinite, i16x8.eq(h, i16x8.splat(0x7c00)));
      }
      bad += v128.any_true(infinite) ? 1 : 0;
    }
  }
  return bad;
}

/** Copies the 16 plain rows of a row block, `stride` bytes each; of those that the tensor has no more, all bytes are 0. left: rows from here on. */
export function copy_rows(rows: usize, stride: usize, left: i32, scratch: usize): void {
  const n = min(ROWS, left);
  memory.copy(scratch, rows, <usize>n * stride);
  memory.fill(scratch + <usize>n * stride, 0, <usize>(ROWS - n) * stride);
}

/** Unpacks row `row` of the packed tensor at w to ne00 f32 at y: the bits of dequantize_row. scratch: OPENED bytes (format/grid.ts). */
// @ts-ignore: decorator
@inline
export function row_of<F>(w: usize, ne00: i32, row: i32, y: usize, scratch: usize): void {
  if (fmt.fours<F>()) grid_row<F, SignedFours>(w, ne00, row, y, scratch);
  else if (fmt.grid<F>() && fmt.has_signs<F>()) grid_row<F, SignedEights>(w, ne00, row, y, scratch);
  else if (fmt.grid<F>()) grid_row<F, Eights>(w, ne00, row, y, scratch);
  else row_of_codes<F>(w, ne00, row, y);
}

/** The same of formats of grids, whose entries are those of K. */
// @ts-ignore: decorator
@inline
function grid_row<F, K>(w: usize, ne00: i32, row: i32, y: usize, scratch: usize): void {
  const f = changetype<F>(0);
  row_of_grid<K>(w, ne00 / fmt.weights<F>(), row, y, scratch, f.bytes(), f.factor(), open_index<F>());
}

/** The same of formats whose codes lie as format.ts says. */
function row_of_codes<F>(w: usize, ne00: i32, row: i32, y: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / fmt.weights<F>();
  const m = fmt.mask<F>();
  const m2 = fmt.mask2<F>();
  const none = f32x4.splat(-0.0);
  const centre = f32x4.splat(<f32>fmt.centre<F>());
  const in_block: usize = row & 15;
  const lane = row & 3;
  const group: usize = (row >> 2) & 3;
  const scales: usize = group * (fmt.f16_vectors<F>() == 0 ? 4 : 8); // where the group's begin: bytes, or f16
  let p = w + <usize>(row / ROWS) * blocks * f.bytes();
  for (let b = 0; b < blocks; b++) {
    const d = lane_f32(fmt.d<F, G0>(p + scales), lane);
    const dmin = lane_f32(fmt.dmin<F, G0>(p + scales), lane);
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      let q = f.codes_at(p, sub) + (group << 4);
      const h = fmt.fifth_bits_at<F>(p, sub) + (group << 4);
      const i = fmt.s16<F>() ? sub << 1 : sub;
      const x = f32x4.mul(d, fmt.scale_of_row<F>(p, i, in_block));
      const z = fmt.has_min<F>() ? f32x4.mul(dmin, fmt.min_of_row<F>(p, i, in_block)) : none;
      const x1 = fmt.s16<F>() ? f32x4.mul(d, fmt.scale_of_row<F>(p, i + 1, in_block)) : x;
      const z1 = fmt.s16<F>() && fmt.has_min<F>() ? f32x4.mul(dmin, fmt.min_of_row<F>(p, i + 1, in_block)) : z;
      for (let t = 0; t < 4; t++) {
        let first: v128, second: v128;
        if (fmt.s16<F>()) {
          first = fmt.half_codes<F, G0>(q, 0, t);
          second = fmt.half_codes<F, G0>(q, 1, t);
        } else {
          const v = fmt.load_first<F, G0>(q, t);
          const bits = fmt.fifth_bits<F, G0>(h, t);
          first = fmt.first<F>(v, bits, m, m2);
          second = fmt.second<F>(fmt.load_second<F, G0>(q, t, v), bits, m, m2);
          q += fmt.quad_bytes<F>();
        }
        if (fmt.eight_bits<F>()) {
          first = packed_codes(first);
          second = packed_codes(second);
        }
        store_values(y, row_codes(first, lane), centre, x, z);
        store_values(y + 64, row_codes(second, lane), centre, x1, z1);
        y += 16;
      }
      y += 64;
    }
    p += f.bytes();
  }
}

/** Stores four codes (i8 in the first four lanes) as (code - centre) * d + min; a min of -0 changes nothing. Not inlined: it is used by all formats. */
function store_values(y: usize, codes: v128, centre: v128, d: v128, min: v128): void {
  const x = f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(codes)));
  v128.store(y, f32x4.add(f32x4.mul(f32x4.sub(x, centre), d), min));
}

/** Lane i of v in all lanes. */
// @ts-ignore: decorator
@inline
function lane_f32(v: v128, i: i32): v128 {
  return i8x16.swizzle(v, i8x16.add(i8x16.splat(<i8>(i << 2)), i32x4.splat(0x03020100)));
}
