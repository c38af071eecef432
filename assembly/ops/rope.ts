/**
 * Rotary position embedding (ggml_rope_ext): rotates pairs of dimensions by angles from a table.
 */
import { Op, fill_nan, nrows, row_at, row_of } from '../runtime/tensor';
import { range_start, range_end } from '../runtime/schedule';

/**
 * rope: rotates src0 [ne0 >= n_dims, n_head, n_tokens, ne3] f32, by the positions in src1, i32
 * [n_tokens]. The table src2, f32 [n_dims, n_ctx], has cos and sin, alternating, of each pair at
 * each position. The host makes the table when a model loads. So frequency base, scaling, YaRN and
 * factors are not needed here, and angles are computed in f64.
 *
 *   p0 | number of dimensions rotated
 *   p1 | 0: adjacent pairs (i, i + 1); 1: neox pairs (i, i + n_dims / 2)
 *
 * dst may be src0. A negative position rotates the other way, with the table's row of its absolute
 * value: cos is even, sin is odd. A position outside the table on either side gives a row of NaN,
 * as get_rows does (the host refuses positions that it sees).
 */
export function rope(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const dst = op.dst;
  const n_dims = op.p0;
  const neox = op.p1 != 0;
  const heads = src0.ne1;
  const rows = nrows(src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const x = row_at(src0, r);
    const y = row_at(dst, r);
    const t = (r / heads) % src0.ne2;
    const pos = load<i32>(op.src1.data + <usize>t * op.src1.nb0);
    const distance = abs(pos);
    if (<u32>distance >= <u32>op.src2.ne1) {
      fill_nan(y, dst.ne0);
      continue;
    }
    const table = row_of(op.src2, distance, 0, 0);
    const sign = i32x4.splat(pos & 0x80000000);
    if (neox) rotate_neox(x, y, table, n_dims, sign);
    else rotate_adjacent(x, y, table, n_dims, sign);
    for (let i = n_dims; i < src0.ne0; i++) store<f32>(y + (<usize>i << 2), load<f32>(x + (<usize>i << 2)));
  }
}

/**
 * Rotates the pair of dimensions a and b, for the last pairs that do not fill a vector. sign: sign
 * bit in every lane, applied to sin.
 */
@inline
function rotate_pair(x: usize, y: usize, table: usize, a: i32, b: i32, pair: i32, sign: v128): void {
  const c = load<f32>(table + (<usize>pair << 3));
  const s = f32x4.extract_lane(v128.xor(v128.load32_splat(table + (<usize>pair << 3), 4), sign), 0);
  const x0 = load<f32>(x + (<usize>a << 2));
  const x1 = load<f32>(x + (<usize>b << 2));
  store<f32>(y + (<usize>a << 2), x0 * c - x1 * s);
  store<f32>(y + (<usize>b << 2), x0 * s + x1 * c);
}

function rotate_adjacent(x: usize, y: usize, table: usize, n: i32, sign: v128): void {
  const signs = v128.xor(i32x4(0x80000000, 0, 0x80000000, 0), sign); // x0 c - x1 s, x1 c + x0 s
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const o = <usize>i << 2;
    const v = v128.load(x + o);
    const t = v128.load(table + o); // t = c0 s0 c1 s1
    const c = i8x16.shuffle(t, t, 0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11);
    const s = i8x16.shuffle(t, t, 4, 5, 6, 7, 4, 5, 6, 7, 12, 13, 14, 15, 12, 13, 14, 15);
    const swapped = i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v128.store(y + o, f32x4.add(f32x4.mul(v, c), v128.xor(f32x4.mul(swapped, s), signs)));
  }
  for (; i + 2 <= n; i += 2) rotate_pair(x, y, table, i, i + 1, i >> 1, sign);
}

function rotate_neox(x: usize, y: usize, table: usize, n: i32, sign: v128): void {
  const half = n >> 1;
  let i = 0;
  for (; i + 4 <= half; i += 4) {
    const a = <usize>i << 2;
    const b = <usize>(i + half) << 2;
    const t0 = v128.load(table + (<usize>i << 3));
    const t1 = v128.load(table + (<usize>i << 3), 16);
    const c = i8x16.shuffle(t0, t1, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const s = v128.xor(i8x16.shuffle(t0, t1, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31), sign);
    const x0 = v128.load(x + a);
    const x1 = v128.load(x + b);
    v128.store(y + a, f32x4.sub(f32x4.mul(x0, c), f32x4.mul(x1, s)));
    v128.store(y + b, f32x4.add(f32x4.mul(x0, s), f32x4.mul(x1, c)));
  }
  for (; i < half; i++) rotate_pair(x, y, table, i, i + half, i, sign);
}
