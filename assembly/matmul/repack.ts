/**
 * Plain rows of blocks, as GGUF has them, to row blocks of 16 rows and back, in place: 16 rows take the same bytes either way.
 * The rows that the last row block misses become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import * as fmt from './format/format';
import { ROWS } from './format/group';

// ---- What packing calls by its place in the function table (product.ts) ----

// @ts-ignore: decorator
@inline
function pack_index<F>(): u32 {
  return load<u32>(changetype<usize>((src: usize, stride: usize, w: usize): void => changetype<F>(0).pack(src, stride, w)));
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
