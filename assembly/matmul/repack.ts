/**
 * Plain rows, as GGUF has them, to row blocks of 16 rows, in place: 16 rows take the same bytes either way.
 * The rows that the last row block misses become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { pack_block } from './by_type';
import { ALL_F16, IS_FLOAT, blocks_of, f16_vectors, row_bytes } from './facts';
import { ROWS } from './format/group';

/**
 * Packs row blocks [from, to) of the nrows x ne00 tensor at w, of a format with these facts; returns how many packed blocks have a scale that is not
 * finite, or of f16 how many row blocks such a number. scratch: the bytes of 16 plain rows.
 */
export function repack_rows(type: u32, facts: u64, w: usize, ne00: i32, nrows: i32, from: i32, to: i32, scratch: usize): i32 {
  const whole = (facts & IS_FLOAT) != 0; // A row of floats is packed as one block.
  const row = whole ? <usize>ne00 * row_bytes(facts) : row_bytes(facts);
  const stride = whole ? row : <usize>blocks_of(facts, ne00) * row;
  const checked = (facts & ALL_F16) != 0 ? row * ROWS : whole ? 0 : <usize>f16_vectors(facts) << 5;
  let bad = 0;
  for (let i = from; i < to; i++) {
    const rows = w + <usize>i * ROWS * stride;
    copy_rows(rows, stride, nrows - i * ROWS, scratch);
    let src = scratch;
    for (let block = rows, end = rows + <usize>ROWS * stride; block < end; block += row * ROWS, src += row) {
      pack_block(type, src, stride, block, ne00);
      let infinite = i32x4.splat(0);
      for (let p = block; p < block + checked; p += 16) {
        const h = v128.and(v128.load(p), i16x8.splat(0x7c00));
        infinite = v128.or(infinite, i16x8.eq(h, i16x8.splat(0x7c00)));
      }
      bad += v128.any_true(infinite) ? 1 : 0;
    }
  }
  return bad;
}

/** Copies the 16 plain rows of a row block, `stride` bytes each; of those that the tensor has no more, all bytes are 0. left: rows from here on. */
function copy_rows(rows: usize, stride: usize, left: i32, scratch: usize): void {
  const n = min(ROWS, left);
  memory.copy(scratch, rows, <usize>n * stride);
  memory.fill(scratch + <usize>n * stride, 0, <usize>(ROWS - n) * stride);
}
