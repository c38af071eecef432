/** Ops that work row by row: get_rows, quantise, add, swiglu. Rows are independent and split evenly over the threads. */
import { TYPE_ACT, quantize_act } from './act';
import { silu_f32x4 } from './math';
import { add_row } from './norm';
import { packed_row } from './packed';
import { LAYOUT_PACKED, Op, nrows, row_of } from './tensor';
import { split_from, split_to } from './schedule';
import { dequantize_row, quantize_row } from './type_traits';

/** dst[:, i] = row src1[i] of src0 as f32. src0 any type [n, m], src1 i32 [k], dst f32 [n, k]. */
export function get_rows(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, dst = op.dst, rows = dst.ne1;
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const i = load<i32>(op.src1.data + (<usize>r << 2));
    const y = row_of(dst, r, 0, 0);
    if (src0.layout == LAYOUT_PACKED) packed_row(src0.type, src0.data, src0.ne0, i, y);
    else dequantize_row(src0.type, row_of(src0, i, 0, 0), y, src0.ne0);
  }
}

/** dst = src0 (f32) in dst's type: the activations' way into integer products (ggml's from_float). */
export function quantize(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, dst = op.dst, rows = nrows(src0);
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const i1 = r % src0.ne1, i2 = r / src0.ne1 % src0.ne2, i3 = r / (src0.ne1 * src0.ne2);
    const x = row_of(src0, i1, i2, i3), y = row_of(dst, i1, i2, i3);
    if (dst.type == TYPE_ACT) quantize_act(x, src0.ne0, y);
    else quantize_row(dst.type, x, y, src0.ne0);
  }
}

/** dst = src0 + src1, same shapes, f32. */
export function add(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst, rows = nrows(dst);
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const i1 = r % dst.ne1, i2 = r / dst.ne1 % dst.ne2, i3 = r / (dst.ne1 * dst.ne2);
    add_row(row_of(src0, i1, i2, i3), row_of(src1, i1, i2, i3), row_of(dst, i1, i2, i3), dst.ne0);
  }
}

/** dst = silu(src0) * src1: SwiGLU with the gate first. */
export function swiglu(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0, src1 = op.src1, dst = op.dst, rows = nrows(dst), n = dst.ne0;
  const to = split_to(rows, ith, nth);
  for (let r = split_from(rows, ith, nth); r < to; r++) {
    const g = row_of(src0, r, 0, 0), u = row_of(src1, r, 0, 0), y = row_of(dst, r, 0, 0);
    const n4 = n & ~3;
    for (let i = 0; i < n4; i += 4) {
      const o = <usize>i << 2;
      v128.store(y + o, f32x4.mul(silu_f32x4(v128.load(g + o)), v128.load(u + o)));
    }
    for (let i = n4; i < n; i++) {
      const o = <usize>i << 2;
      store<f32>(y + o, f32x4.extract_lane(silu_f32x4(v128.load32_splat(g + o)), 0) * load<f32>(u + o));
    }
  }
}
