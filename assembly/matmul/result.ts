/**
 * Destination of a product's sums: columns of f32, adjacent or scattered among the columns of a
 * larger result.
 */
import { ROWS } from './format/group';

/**
 * Address of column c of dst. places: for each column an i32, its column in dst; or 0 if c is the
 * column.
 */
@inline
export function column_of(dst: usize, dst_stride: usize, places: usize, c: i32): usize {
  return dst + <usize>(places ? load<i32>(places + (<usize>c << 2)) : c) * dst_stride;
}

/** Copies the sums of rows [row, min(row + 16, row1)) to the column at y. */
@inline
export function put(y: usize, row: i32, row1: i32, sums: usize): void {
  memory.copy(y + (<usize>row << 2), sums, <usize>min(ROWS, row1 - row) << 2);
}
