/**
 * The KV cache of one layer, f16, in the order attention reads it. `cells` and head_dim are multiples of 8 (padded with zeros).
 *
 *   K  [n_head_kv][cells / 8][head_dim][8 cells]   one 16-byte load = one dimension of 8 neighbouring keys
 *   V  [n_head_kv][cells][head_dim]                one 16-byte load = 8 dimensions of one value
 *
 * So scores are computed 8 keys at a time without horizontal sums, and values 8 dimensions at a time.
 */
import { f32_to_f16 } from './simd';
import { Op, row_of } from './tensor';
import { split_from, split_to } from './schedule';

/** Address of K's 8 keys from cell `cell` (a multiple of 8) of head `head`, dimension 0; 16 bytes a dimension. */
// @ts-ignore: decorator
@inline
export function k_group(k: usize, head: i32, cells: i32, hd: i32, cell: i32): usize {
  return k + (<usize>head * cells + cell) * hd * 2;
}

/** Address of V's row of `cell` of head `head`. */
// @ts-ignore: decorator
@inline
export function v_row(v: usize, head: i32, cells: i32, hd: i32, cell: i32): usize {
  return v + (<usize>head * cells + cell) * hd * 2;
}

/**
 * set_rows into the cache: src0 [head_dim, n_head_kv, n_tokens] f32 -> cell src1[t] of dst.
 * p0 = padded head_dim, p1 = cells, p2 = 0: K order, 1: V order.
 */
export function kv_store(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, data = op.dst.data;
  const hd = op.p0, cells = op.p1, is_v = op.p2 != 0;
  const heads = src0.ne1, rows = heads * src0.ne2, n = src0.ne0;
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const h = r % heads, t = r / heads;
    const x = row_of(src0, h, t, 0);
    const cell = load<i32>(op.src1.data + (<usize>t << 2));
    let y: usize, step: usize;
    if (is_v) {
      y = v_row(data, h, cells, hd, cell);
      step = 2;
    } else {
      y = k_group(data, h, cells, hd, cell & ~7) + (<usize>(cell & 7) << 1);
      step = 16;
    }
    for (let i = 0; i < n; i++, y += step) store<u16>(y, <u16>f32_to_f16(load<f32>(x + (<usize>i << 2))));
  }
}
