/**
 * The general matrix product, ggml_compute_forward_mul_mat: dst[i0, i1, i2, i3] = src0[:, i0, i2 / r2, i3 / r3] . src1[:, i1, i2, i3].
 * Any strides (elements within a row contiguous), any weight type, broadcast of src0 over dimensions 2 and 3; row by row through vec_dot.
 * src1 is already of src0's vec_dot_type: the plan puts a quantise op before where it must be (ggml's INIT phase).
 */
import { Op, row_of } from './tensor';
import { chunk_cols, chunk_rows } from './schedule';
import { take } from './sync';
import { vec_dot } from './type_traits';

/** Both sides are walked in 16 x 16 tiles, so that 16 rows of each side stay in L1 while they meet (ggml's blck_0, blck_1). */
const TILE: i32 = 16;

export function mul_mat(op: Op, nth: i32): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst;
  const nr0 = src0.ne1, nr1 = src1.ne1 * src1.ne2 * src1.ne3;
  if (nr1 == 0) return;
  const dr0 = chunk_rows(nr0, nr1, nth, 1), dr1 = chunk_cols(nr0, nr1, nth);
  const nchunk0 = (nr0 + dr0 - 1) / dr0, nchunks = nchunk0 * ((nr1 + dr1 - 1) / dr1);
  for (let chunk = take(op.cursor); chunk < nchunks; chunk = take(op.cursor)) {
    const i0 = chunk % nchunk0 * dr0, i1 = chunk / nchunk0 * dr1;
    one_chunk(op, i0, min(i0 + dr0, nr0), i1, min(i1 + dr1, nr1));
  }
}

function one_chunk(op: Op, from0: i32, to0: i32, from1: i32, to1: i32): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst;
  const n = src0.ne0, r2 = src1.ne2 / src0.ne2, r3 = src1.ne3 / src0.ne3, per3 = src1.ne1 * src1.ne2;
  for (let b1 = from1; b1 < to1; b1 += TILE) {
    for (let b0 = from0; b0 < to0; b0 += TILE) {
      const end1 = min(b1 + TILE, to1), end0 = min(b0 + TILE, to0);
      for (let i = b1; i < end1; i++) {
        const i13 = i / per3, i12 = i % per3 / src1.ne1, i11 = i % src1.ne1;
        const y = row_of(src1, i11, i12, i13), d = row_of(dst, i11, i12, i13);
        const w = row_of(src0, 0, i12 / r2, i13 / r3);
        for (let r = b0; r < end0; r++) {
          store<f32>(d + (<usize>r << 2), vec_dot(src0.type, n, w + <usize>r * src0.nb1, y));
        }
      }
    }
  }
}
