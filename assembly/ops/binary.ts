/**
 * ggml's bin_bcast: dst[i] = src0[i] op src1[i mod src1.ne], where each dimension of src1 divides
 * dst's. f32, any strides; dst may be src0. Leading dimensions that are contiguous in all three
 * tensors, and not repeated, are merged into one loop.
 */
import { BINARY_ADD, BINARY_DIV, BINARY_MUL, BINARY_REPEAT, BINARY_SUB } from '../layout';
import { range_start, range_end } from '../runtime/schedule';
import { Op, fill_nan, joins, row_of } from '../runtime/tensor';

// Operations of BINARY.
@unmanaged
class Add {
  @inline f(a: v128, b: v128): v128 {
    return f32x4.add(a, b);
  }
}
@unmanaged
class Sub {
  @inline f(a: v128, b: v128): v128 {
    return f32x4.sub(a, b);
  }
}
@unmanaged
class Mul {
  @inline f(a: v128, b: v128): v128 {
    return f32x4.mul(a, b);
  }
}
@unmanaged
class Div {
  @inline f(a: v128, b: v128): v128 {
    return f32x4.div(a, b);
  }
}
/** repeat: src0 is ignored. */
@unmanaged
class Second {
  @inline f(a: v128, b: v128): v128 {
    return b;
  }
}

/** Elements that a thread takes at a time if all rows are one loop. */
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

/**
 * dst [n, used, tokens] = src0 + row src2[u, t] of src1 [n, rows]; src2: i32 [used, tokens]. An id
 * out of range gives a row of NaN. dst may be src0.
 */
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

/** Computes n elements at a with the m elements at b, repeated. */
function row(op: Op, a: usize, b: usize, y: usize, n: i32, m: i32): void {
  const sa = op.src0.nb0;
  const sb = op.src1.nb0;
  const sy = op.dst.nb0;
  if (sa != 4 || sy != 4 || (sb != 4 && m != 1)) {
    elements(op.p0, a, sa, b, sb, y, sy, n, m);
    return;
  }
  const one = m == 1;
  const run = one ? n : m;
  const rest = run & 3;
  const bytes = <usize>(run - rest) << 2;
  for (let i = 0; i < n; i += run) {
    // prettier-ignore
    switch (op.p0) {
      case BINARY_ADD: vectors<Add>(a, b, y, bytes, one); break;
      case BINARY_SUB: vectors<Sub>(a, b, y, bytes, one); break;
      case BINARY_MUL: vectors<Mul>(a, b, y, bytes, one); break;
      case BINARY_DIV: vectors<Div>(a, b, y, bytes, one); break;
      case BINARY_REPEAT: vectors<Second>(a, b, y, bytes, one); break;
      default: unreachable();
    }
    a += bytes;
    y += bytes;
    if (rest != 0) elements(op.p0, a, 4, one ? b : b + bytes, 4, y, 4, rest, one ? 1 : rest);
    a += <usize>rest << 2;
    y += <usize>rest << 2;
  }
}

/** Combines the vectors at a with those at b; with `one`, with the single element at b. */
function vectors<F>(a: usize, b: usize, y: usize, bytes: usize, one: bool): void {
  const f = changetype<F>(0);
  const end = y + bytes;
  if (one) {
    for (const v = v128.load32_splat(b); y != end; y += 16, a += 16) v128.store(y, f.f(v128.load(a), v));
  } else {
    for (; y != end; y += 16, a += 16, b += 16) v128.store(y, f.f(v128.load(a), v128.load(b)));
  }
}

/**
 * Combines n elements at a with the m at b, repeated; sa, sb and sy are the strides in bytes. One
 * function serves all operations, since few rows need it.
 */
function elements(code: i32, a: usize, sa: usize, b: usize, sb: usize, y: usize, sy: usize, n: i32, m: i32): void {
  for (let i = 0; i < n; i++, a += sa, y += sy) {
    const u = load<f32>(a);
    const v = load<f32>(b + <usize>(i % m) * sb);
    store<f32>(y, code == BINARY_ADD ? u + v : code == BINARY_SUB ? u - v : code == BINARY_MUL ? u * v : code == BINARY_DIV ? u / v : v);
  }
}
