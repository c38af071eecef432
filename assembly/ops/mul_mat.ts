/**
 * The general matrix product, ggml_compute_forward_mul_mat, row by row with vec_dot:
 *
 *   dst[i0, i1, i2, i3] = src0[:, i0, i2 / r2, i3 / r3] . src1[:, i1, i2, i3]
 *
 * It takes any strides (elements within a row are contiguous) and any weight type. Dimensions 2 and
 * 3 of src0 are repeated. The type of src1 is already src0's vec_dot_type: if necessary the plan
 * has a QUANTIZE op before this one (ggml's INIT phase).
 *
 * With src2, the groups of groups.ts, this is mul_mat_id: src1 [k, a divisor of used, tokens], dst
 * [n, used, tokens], each group by its own matrix of src0.
 */
import { Op, row_of } from '../runtime/tensor';
import { chunk_cols, chunk_rows } from '../runtime/schedule';
import { take } from '../runtime/sync';
import { blck_size } from '../type/ids';
import { vec_dot } from '../type/traits';
import { columns_from, fill_group_nan, group_at, group_count, row_of_column } from './groups';

/** Both sides are walked in tiles of 16 x 16 rows, which stay in L1 (ggml's blck_0, blck_1). */
const TILE: i32 = 16;

export function mul_mat(op: Op, nth: i32): void {
  if (changetype<usize>(op.src2)) return mul_mat_groups(op);
  const src0 = op.src0;
  const src1 = op.src1;
  const nr0 = src0.ne1;
  const nr1 = src1.ne1 * src1.ne2 * src1.ne3;
  if (nr1 == 0) return;
  const dr0 = chunk_rows(nr0, nr1, nth, 1);
  const dr1 = chunk_cols(nr0, nr1, nth);
  const nchunk0 = (nr0 + dr0 - 1) / dr0;
  const nchunks = nchunk0 * ((nr1 + dr1 - 1) / dr1);
  for (let chunk = take(op.cursor); chunk < nchunks; chunk = take(op.cursor)) {
    const i0 = (chunk % nchunk0) * dr0;
    const i1 = (chunk / nchunk0) * dr1;
    one_chunk(op, i0, min(i0 + dr0, nr0), i1, min(i1 + dr1, nr1));
  }
}

function one_chunk(op: Op, from0: i32, to0: i32, from1: i32, to1: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const n = src0.ne0;
  const r2 = src1.ne2 / src0.ne2;
  const r3 = src1.ne3 / src0.ne3;
  const per3 = src1.ne1 * src1.ne2;
  for (let b1 = from1; b1 < to1; b1 += TILE) {
    for (let b0 = from0; b0 < to0; b0 += TILE) {
      const end1 = min(b1 + TILE, to1);
      const end0 = min(b0 + TILE, to0);
      for (let i = b1; i < end1; i++) {
        const i13 = i / per3;
        const i12 = (i % per3) / src1.ne1;
        const i11 = i % src1.ne1;
        const y = row_of(src1, i11, i12, i13);
        const d = row_of(dst, i11, i12, i13);
        const w = row_of(src0, 0, i12 / r2, i13 / r3);
        for (let r = b0; r < end0; r++) {
          store<f32>(d + (<usize>r << 2), vec_dot(src0.type, n, w + <usize>r * src0.nb1, y));
        }
      }
    }
  }
}

/**
 * dst [n, m, groups]: rows of src0 [k, n] times columns of src1 [k, m], restricted to the part of
 * each group: elements [src2[0, g], src2[1, g]), whole blocks of both. A group without elements
 * gives 0.
 */
export function mul_mat_parts(op: Op): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const n = src0.ne1;
  const tiles = (n + TILE - 1) / TILE;
  const all = tiles * dst.ne2;
  for (let i = take(op.cursor); i < all; i = take(op.cursor)) {
    const g = i / tiles;
    const from = (i % tiles) * TILE;
    const to = min(from + TILE, n);
    const part = op.src2.data + (<usize>g << 3);
    const k0 = load<i32>(part);
    const k = load<i32>(part, 4) - k0;
    const w = src0.data + <usize>(<u32>k0 / blck_size(src0.type)) * src0.nb0;
    const x = src1.data + <usize>(<u32>k0 / blck_size(src1.type)) * src1.nb0;
    for (let c = 0; c < dst.ne1; c++) {
      const y = x + <usize>c * src1.nb1;
      const d = row_of(dst, c, g, 0);
      for (let r = from; r < to; r++) store<f32>(d + (<usize>r << 2), vec_dot(src0.type, k, w + <usize>r * src0.nb1, y));
    }
  }
}

/** Multiplies TILE rows of a group's matrix, which stay in L1, by all of the group's columns. */
function mul_mat_groups(op: Op): void {
  const src0 = op.src0;
  const dst = op.dst;
  const n = src0.ne1;
  const tiles = (n + TILE - 1) / TILE;
  const all = tiles * group_count(op.src2);
  for (let i = take(op.cursor); i < all; i = take(op.cursor)) {
    const g = group_at(op.src2, i / tiles);
    const from = (i % tiles) * TILE;
    const to = min(from + TILE, n);
    if (g.matrix < 0) {
      fill_group_nan(dst, op.src2, g, from, to);
      continue;
    }
    const w = row_of(src0, 0, g.matrix, 0);
    for (let c = 0; c < g.columns; c++) {
      const column = load<i32>(columns_from(op.src2, g.first + c));
      const y = row_of_column(op.src1, column, dst.ne1);
      const d = dst.data + <usize>column * dst.nb1;
      for (let r = from; r < to; r++) store<f32>(d + (<usize>r << 2), vec_dot(src0.type, src0.ne0, w + <usize>r * src0.nb1, y));
    }
  }
}
