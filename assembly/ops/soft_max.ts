/** soft_max_ext and diag_mask_inf over rows of contiguous f32. */
import { exp_f32x4 } from '../math';
import { f16_to_f32, hmax_f32, hsum_f32, load_f16x4 } from '../simd';
import { range_start, range_end } from '../runtime/schedule';
import { Op, nrows, row_at, row_of } from '../runtime/tensor';
import { F16 } from '../type/ids';

/**
 * Lower than any score, but finite, so that a row that holds only -Inf has no difference of
 * infinities.
 */
const LOWEST: f32 = -1e30;

/**
 * dst = softmax(p0 * src0 + slope * src1) over dimension 0. src1: none, or the mask, f32 or f16
 * [ne0, >= ne1, .., ..], repeated over dimensions 2 and 3. src2: slopes f32 [ne2] (ALiBi), or none:
 * 1. dst may be src0. Rows are walked as in get_rows (copy.ts); no function can return the three
 * indices.
 */
export function soft_max(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  const n = dst.ne0;
  const scale = reinterpret<f32>(op.p0);
  const rows = nrows(dst);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const i1 = r % dst.ne1;
    const i2 = (r / dst.ne1) % dst.ne2;
    const i3 = r / (dst.ne1 * dst.ne2);
    const slope = changetype<usize>(op.src2) ? load<f32>(op.src2.data + (<usize>i2 << 2)) : <f32>1;
    const y = row_at(dst, r);
    let top: f32;
    if (changetype<usize>(src1))
      top = scale_and_mask(row_at(src0, r), y, n, scale, row_of(src1, i1, i2 % src1.ne2, i3 % src1.ne3), src1.type == F16, slope);
    else top = scale_and_mask(row_at(src0, r), y, n, scale, 0, false, slope);
    normalise(y, n, max(top, LOWEST));
  }
}

/** y = x * scale + slope * mask; returns the largest y. */
function scale_and_mask(x: usize, y: usize, n: i32, scale: f32, mask: usize, half: bool, slope: f32): f32 {
  const n4 = n & ~3;
  const s = f32x4.splat(scale);
  const t = f32x4.splat(slope);
  let top = i32x4.splat(0xff800000); // -inf
  for (let i = 0; i < n4; i += 4) {
    const o = <usize>i << 2;
    let v = f32x4.mul(v128.load(x + o), s);
    if (mask) v = f32x4.add(v, f32x4.mul(half ? load_f16x4(mask + (<usize>i << 1)) : v128.load(mask + o), t));
    v128.store(y + o, v);
    top = f32x4.pmax(top, v);
  }
  let max = hmax_f32(top);
  for (let i = n4; i < n; i++) {
    const o = <usize>i << 2;
    let v = load<f32>(x + o) * scale;
    if (mask) {
      if (half) v += f16_to_f32(load<u16>(mask + (<usize>i << 1))) * slope;
      else v += load<f32>(mask + o) * slope;
    }
    store<f32>(y + o, v);
    if (v > max) max = v;
  }
  return max;
}

function normalise(y: usize, n: i32, top: f32): void {
  const n4 = n & ~3;
  const t = f32x4.splat(top);
  let acc = f32x4.splat(0);
  for (let i = 0; i < n4; i += 4) {
    const o = <usize>i << 2;
    const e = exp_f32x4(f32x4.sub(v128.load(y + o), t));
    v128.store(y + o, e);
    acc = f32x4.add(acc, e);
  }
  let sum = hsum_f32(acc);
  for (let i = n4; i < n; i++) {
    const o = <usize>i << 2;
    const e = exp_f32x4(f32x4.sub(v128.load32_splat(y + o), t));
    v128.store32_lane(y + o, e, 0);
    sum += f32x4.extract_lane(e, 0);
  }
  const s = f32x4.splat(<f32>1 / sum);
  for (let i = 0; i < n4; i += 4) v128.store(y + (<usize>i << 2), f32x4.mul(v128.load(y + (<usize>i << 2)), s));
  for (let i = n4; i < n; i++) store<f32>(y + (<usize>i << 2), load<f32>(y + (<usize>i << 2)) * (<f32>1 / sum));
}

/** dst = src0, but -Inf if i0 > p0 + i1. dst may be src0. */
export function diag_mask_inf(op: Op, ith: i32, nth: i32): void {
  const dst = op.dst;
  const n = dst.ne0;
  const rows = nrows(dst);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const x = row_at(op.src0, r);
    const y = row_at(dst, r);
    const seen = max(0, min(n, op.p0 + (r % dst.ne1) + 1));
    if (x != y) memory.copy(y, x, <usize>seen << 2);
    for (let i = seen; i < n; i++) store<u32>(y + (<usize>i << 2), 0xff800000);
  }
}
