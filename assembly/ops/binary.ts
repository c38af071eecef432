/**
 * ggml's bin_bcast: dst[i] = src0[i] op src1[i mod src1.ne], each dimension of src1 dividing dst's. f32, any strides; dst may be src0.
 * Leading dimensions that are contiguous in all three tensors, and not repeated, are walked as one.
 */
import { range_start, range_end } from '../runtime/schedule';
import { Op, fill_nan, joins, row_of } from '../runtime/tensor';

// Codes: src/graph/layout.ts BINARY.
@unmanaged
class Add {
  /* 0 */ @inline f(a: v128, b: v128): v128 {
    return f32x4.add(a, b);
  }
}
@unmanaged
class Sub {
  /* 1 */ @inline f(a: v128, b: v128): v128 {
    return f32x4.sub(a, b);
  }
}
@unmanaged
class Mul {
  /* 2 */ @inline f(a: v128, b: v128): v128 {
    return f32x4.mul(a, b);
  }
}
@unmanaged
class Div {
  /* 3 */ @inline f(a: v128, b: v128): v128 {
    return f32x4.div(a, b);
  }
}
/** repeat: src0 is ignored. */
@unmanaged
class Second {
  /* 4 */ @inline f(a: v128, b: v128): v128 {
    return b;
  }
}

/** Elements that a thread takes at a time where all rows are walked as one. */
const UNIT: i32 = 64;

export function binary(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const dst = op.dst;
  let n = dst.ne0;
  let m = src1.ne0;
  let n1 = dst.ne1;
  let n2 = dst.ne2;
  let n3 = dst.ne3;
  if (m == n && src1.ne1 == n1 && joins(src0, 1) && joins(src1, 1) && joins(dst, 1)) {
    n = m = n * n1;
    n1 = 1;
    if (src1.ne2 == n2 && joins(src0, 2) && joins(src1, 2) && joins(dst, 2)) {
      n = m = n * n2;
      n2 = 1;
      if (src1.ne3 == n3 && joins(src0, 3) && joins(src1, 3) && joins(dst, 3)) {
        n = m = n * n3;
        n3 = 1;
      }
    }
  }
  const rows = n1 * n2 * n3;
  if (rows == 1 && m == n && src0.nb0 == 4 && src1.nb0 == 4 && dst.nb0 == 4) {
    const units = (n + UNIT - 1) / UNIT;
    const from = range_start(units, ith, nth) * UNIT;
    const end = min(n, range_end(units, ith, nth) * UNIT);
    const o = <usize>from << 2;
    if (from < end) row(op, src0.data + o, src1.data + o, dst.data + o, end - from, end - from);
    return;
  }
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const i1 = r % n1;
    const i2 = (r / n1) % n2;
    const i3 = r / (n1 * n2);
    const x = src0.data + <usize>i1 * src0.nb1 + <usize>i2 * src0.nb2 + <usize>i3 * src0.nb3;
    const y = src1.data + <usize>(i1 % src1.ne1) * src1.nb1 + <usize>(i2 % src1.ne2) * src1.nb2 + <usize>(i3 % src1.ne3) * src1.nb3;
    row(op, x, y, dst.data + <usize>i1 * dst.nb1 + <usize>i2 * dst.nb2 + <usize>i3 * dst.nb3, n, m);
  }
}

/** dst [n, used, tokens] = src0 + row src2[u, t] of src1 [n, rows]; src2: i32 [used, tokens]. An id outside gives a row of NaN. dst may be src0. */
export function add_id(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const src1 = op.src1;
  const ids = op.src2;
  const dst = op.dst;
  const rows = dst.ne1 * dst.ne2;
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const u = r % dst.ne1;
    const t = r / dst.ne1;
    const id = load<i32>(ids.data + <usize>u * ids.nb0 + <usize>t * ids.nb1);
    const y = row_of(dst, u, t, 0);
    if (<u32>id < <u32>src1.ne1) row(op, row_of(src0, u, t, 0), row_of(src1, id, 0, 0), y, dst.ne0, dst.ne0);
    else fill_nan(y, dst.ne0);
  }
}

/** n elements at a and, repeated, the m at b. */
function row(op: Op, a: usize, b: usize, y: usize, n: i32, m: i32): void {
  // prettier-ignore
  switch (op.p0) {
    case 0: return combine<Add>(op, a, b, y, n, m);
    case 1: return combine<Sub>(op, a, b, y, n, m);
    case 2: return combine<Mul>(op, a, b, y, n, m);
    case 3: return combine<Div>(op, a, b, y, n, m);
    case 4: return combine<Second>(op, a, b, y, n, m);
    default: unreachable();
  }
}

function combine<F>(op: Op, a: usize, b: usize, y: usize, n: i32, m: i32): void {
  const sa = op.src0.nb0;
  const sb = op.src1.nb0;
  const sy = op.dst.nb0;
  if (sa != 4 || sy != 4 || (sb != 4 && m != 1)) {
    for (let i = 0; i < n; i++) {
      const v = changetype<F>(0).f(v128.load32_splat(a + <usize>i * sa), v128.load32_splat(b + <usize>(i % m) * sb));
      v128.store32_lane(y + <usize>i * sy, v, 0);
    }
  } else if (m == 1) {
    const end = <usize>n << 2;
    const end4 = end & ~15;
    const v = v128.load32_splat(b);
    let o: usize = 0;
    for (; o < end4; o += 16) v128.store(y + o, changetype<F>(0).f(v128.load(a + o), v));
    for (; o < end; o += 4) v128.store32_lane(y + o, changetype<F>(0).f(v128.load32_splat(a + o), v), 0);
  } else {
    const end = <usize>m << 2;
    const end4 = end & ~15;
    for (let i = 0; i < n; i += m, a += end, y += end) {
      let o: usize = 0;
      for (; o < end4; o += 16) v128.store(y + o, changetype<F>(0).f(v128.load(a + o), v128.load(b + o)));
      for (; o < end; o += 4) v128.store32_lane(y + o, changetype<F>(0).f(v128.load32_splat(a + o), v128.load32_splat(b + o)), 0);
    }
  }
}
