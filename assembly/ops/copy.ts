/**
 * Copies of rows and elements between types and layouts: get_rows, set_rows, quantize, cpy (dup,
 * cont).
 */
import { COPY_CHUNK, COPY_CONVERT, COPY_ELEMENTS, COPY_ROWS, COPY_SCRATCH, COPY_ZEROS, LAYOUT_PACKED, TYPE_ACT } from '../layout';
import { quantize_act } from '../matmul/act';
import { packed_row } from '../matmul/packed';
import { range_start, range_end } from '../runtime/schedule';
import { Op, fill_nan, nrows, row_at, row_of } from '../runtime/tensor';
import { quantize_activations } from '../type/quantize';
import { I64, type_size } from '../type/ids';
import { dequantize_row, from_float } from '../type/traits';

/**
 * dst[:, i1, i2, i3] = row src1[i1, i2, i3] of src0[.., i2, i3] as f32. src0: any type [n, m, ne2,
 * ne3]; src1: i32. An index out of range gives a row of NaN.
 */
export function get_rows(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const rows = nrows(dst);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const i1 = r % dst.ne1;
    const i2 = (r / dst.ne1) % dst.ne2;
    const i3 = r / (dst.ne1 * dst.ne2);
    const i = load<i32>(src1.data + <usize>i1 * src1.nb0 + <usize>i2 * src1.nb1 + <usize>i3 * src1.nb2);
    const y = row_of(dst, i1, i2, i3);
    if (<u32>i < <u32>src0.ne1 && src0.layout == LAYOUT_PACKED) packed_row(src0.type, src0.data, src0.ne0, i, y, scratch);
    else if (<u32>i < <u32>src0.ne1) dequantize_row(src0.type, row_of(src0, i, i2, i3), y, src0.ne0);
    else fill_nan(y, dst.ne0);
  }
}

/**
 * dst[:, src1[i1], i2, i3] = src0[:, i1, i2, i3] in dst's type. src0: f32; src1: i32 or i64 [ne1, 1
 * or ne2, 1 or ne3]. Rows with an index out of range are skipped. Among rows with the same index
 * the last one wins, since one thread owns a row of dst and goes through all indices in order.
 */
export function set_rows(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const rows = nrows(src0);
  const dense = dst.nb0 == type_size(dst.type);
  for (let r = 0; r < rows; r++) {
    const i1 = r % src0.ne1;
    const i2 = (r / src0.ne1) % src0.ne2;
    const i3 = r / (src0.ne1 * src0.ne2);
    const at = src1.data + <usize>i1 * src1.nb0 + <usize>(i2 % src1.ne1) * src1.nb1 + <usize>(i3 % src1.ne2) * src1.nb2;
    const i = src1.type == I64 && load<i32>(at, 4) != 0 ? -1 : load<i32>(at);
    if (<u32>i >= <u32>dst.ne1 || i % nth != ith) continue;
    let x = row_of(src0, i1, i2, i3);
    let y = row_of(dst, i, i2, i3);
    if (dense) from_float(dst.type, x, y, src0.ne0, scratch);
    else for (const end = x + (<usize>src0.ne0 << 2); x < end; x += 4, y += dst.nb0) from_float(dst.type, x, y, 1, scratch);
  }
}

/** dst = src0 (f32) in dst's type (ggml's from_float). p0: 1 if an integer product reads dst. */
export function quantize(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const dst = op.dst;
  const rows = nrows(src0);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const i = r / src0.ne1;
    if (dst.type >= TYPE_ACT)
      quantize_act(dst.type, row_at(src0, r), 0, src0.ne0, row_of(dst, 0, i % src0.ne2, i / src0.ne2), dst.nb1, r % src0.ne1, src0.ne1);
    else to_type(op.p0 != 0, dst.type, row_at(src0, r), row_at(dst, r), src0.ne0, scratch);
  }
}

@inline
function to_type(activations: bool, type: u32, x: usize, y: usize, k: i32, work: usize): void {
  if (activations) quantize_activations(type, x, y, k);
  else from_float(type, x, y, k, work);
}

/**
 * Copies the elements of src0, in order, to those of dst, in order. p0 is the mode:
 *   COPY_ROWS      rows of the same type and length: p1 bytes each
 *   COPY_ELEMENTS  elements of p1 bytes, any strides and shapes
 *   COPY_CONVERT   rows of the same length, contiguous elements: p1 and p2 are the bytes of
 *                  COPY_CHUNK elements of src0 and dst
 *   COPY_GATHER    elements of src0 (f32, f16, bf16) with any strides to rows of another type or
 *                  shape, p2 as above; p2 = 0: to single elements
 *   COPY_ZEROS     no src0: rows of p1 bytes become 0
 * p3, with COPY_CONVERT and COPY_GATHER: 1 if an integer product reads dst.
 */
export function cpy(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const dst = op.dst;
  const rows = nrows(dst);
  const mode = op.p0;
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const y = row_at(dst, r);
    if (mode == COPY_ROWS) memory.copy(y, row_at(src0, r), op.p1);
    else if (mode == COPY_ELEMENTS) copy_elements(op, r, y);
    else if (mode == COPY_ZEROS) memory.fill(y, 0, op.p1);
    else if (mode == COPY_CONVERT) convert_row(op, row_at(src0, r), y, scratch);
    else gather_row(op, r, y, scratch);
  }
}

function convert_row(op: Op, x: usize, y: usize, scratch: usize): void {
  const from = op.src0.type;
  const to = op.dst.type;
  const n = op.dst.ne0;
  for (let i = 0; i < n; i += COPY_CHUNK, x += op.p1, y += op.p2) {
    const k = min(COPY_CHUNK, n - i);
    dequantize_row(from, x, scratch, k);
    to_type(op.p3 != 0, to, scratch, y, k, scratch + COPY_SCRATCH);
  }
}

function copy_elements(op: Op, r: i32, y: usize): void {
  const src0 = op.src0;
  const n = op.dst.ne0;
  const step = op.dst.nb0;
  const size = op.p1;
  let i = r * n;
  let i0 = i % src0.ne0;
  i /= src0.ne0;
  for (let left = n; left > 0; i++, i0 = 0) {
    const k = min(left, src0.ne0 - i0);
    const from = src0.nb0;
    let x = row_at(src0, i) + <usize>i0 * from;
    left -= k;
    if (size == 4) for (let e = 0; e < k; e++, x += from, y += step) store<u32>(y, load<u32>(x));
    else if (size == 2) for (let e = 0; e < k; e++, x += from, y += step) store<u16>(y, load<u16>(x));
    else if (size == 8) for (let e = 0; e < k; e++, x += from, y += step) store<u64>(y, load<u64>(x));
    else for (let e = 0; e < k; e++, x += from, y += step) store<u8>(y, load<u8>(x));
  }
}

function gather_row(op: Op, r: i32, y: usize, scratch: usize): void {
  const src0 = op.src0;
  const dst = op.dst;
  const n = dst.ne0;
  const chunk = op.p2 ? COPY_CHUNK : 1;
  const step = op.p2 ? op.p2 : dst.nb0;
  let i = r * n;
  let i0 = i % src0.ne0;
  i /= src0.ne0;
  let x = row_at(src0, i) + <usize>i0 * src0.nb0;
  for (let done = 0; done < n; done += chunk, y += step) {
    const k = min(chunk, n - done);
    for (let e = 0; e < k; e++, x += src0.nb0) {
      if (i0 == src0.ne0) {
        i0 = 0;
        x = row_at(src0, ++i);
      }
      dequantize_row(src0.type, x, scratch + (<usize>e << 2), 1);
      i0++;
    }
    to_type(op.p3 != 0, dst.type, scratch, y, k, scratch + COPY_SCRATCH);
  }
}
