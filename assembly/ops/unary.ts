/** Element by element: activations, powers and signs, scale, clamp, and gated units (GLU). Rows have contiguous f32 elements; dst may be src0. */
import { exp_f32x4, gelu_erf_f32x4, gelu_f32x4, gelu_quick_f32x4, log_f32x4, sigmoid_f32x4, silu_f32x4, soft_cap_f32x4, tanh_f32x4 } from '../math';
import { split_from, split_to } from '../schedule';
import { Op, is_dense, nrows, row_at } from '../tensor';
import { also_rows, also_unit, also_write } from './also';

// What an element becomes. Codes: src/graph/layout.ts UNARY. a and b are the op's p1 and p2.
@unmanaged class Silu { /* 0 */ @inline f(x: v128, a: v128, b: v128): v128 { return silu_f32x4(x); } }
@unmanaged class Gelu { /* 1 */ @inline f(x: v128, a: v128, b: v128): v128 { return gelu_f32x4(x); } }
@unmanaged class GeluQuick { /* 2 */ @inline f(x: v128, a: v128, b: v128): v128 { return gelu_quick_f32x4(x); } }
@unmanaged class GeluErf { /* 3 */ @inline f(x: v128, a: v128, b: v128): v128 { return gelu_erf_f32x4(x); } }
@unmanaged class Relu { /* 4 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.pmax(x, f32x4.splat(0)); } }
@unmanaged class Tanh { /* 5 */ @inline f(x: v128, a: v128, b: v128): v128 { return tanh_f32x4(x); } }
@unmanaged class Sigmoid { /* 6 */ @inline f(x: v128, a: v128, b: v128): v128 { return sigmoid_f32x4(x); } }
@unmanaged class Exp { /* 7 */ @inline f(x: v128, a: v128, b: v128): v128 { return exp_f32x4(x); } }
/** a x + b */
@unmanaged class Scale { /* 8 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.add(f32x4.mul(x, a), b); } }
/** To [a, b]. */
@unmanaged class Clamp { /* 9 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.pmin(f32x4.pmax(x, a), b); } }
/** a tanh(x / a) */
@unmanaged class SoftCap { /* 10 */ @inline f(x: v128, a: v128, b: v128): v128 { return soft_cap_f32x4(x, a); } }
@unmanaged class Sqr { /* 11 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.mul(x, x); } }
@unmanaged class Sqrt { /* 12 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.sqrt(x); } }
@unmanaged class Log { /* 13 */ @inline f(x: v128, a: v128, b: v128): v128 { return log_f32x4(x); } }
@unmanaged class Neg { /* 14 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.neg(x); } }
@unmanaged class Abs { /* 15 */ @inline f(x: v128, a: v128, b: v128): v128 { return f32x4.abs(x); } }
/** 1 above 0, else 0; NaN is not above. */
@unmanaged class Step { /* 16 */ @inline f(x: v128, a: v128, b: v128): v128 { return v128.and(f32x4.gt(x, f32x4.splat(0)), f32x4.splat(1)); } }

export function unary(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0, dst = op.dst;
  if (is_dense(src0) && is_dense(dst)) {
    const unit = also_unit(op), n = dst.ne0 * nrows(dst), units = (n + unit - 1) / unit;
    const from = split_from(units, ith, nth) * unit, to = min(n, split_to(units, ith, nth) * unit);
    if (from >= to) return;
    unary_row(op, src0.data + (<usize>from << 2), dst.data + (<usize>from << 2), to - from, scratch);
    also_write(op, from, to - from);
    return;
  }
  const rows = nrows(dst), from = split_from(rows, ith, nth), to = split_to(rows, ith, nth);
  for (let r = from; r < to; r++) unary_row(op, row_at(src0, r), row_at(dst, r), dst.ne0, scratch);
  also_rows(op, from, to);
}

/** The one to three elements behind the last four go through scratch, so that every f stands in one loop of fours (src/graph/layout.ts FOURS_SCRATCH). */
function unary_row(op: Op, x: usize, y: usize, n: i32, scratch: usize): void {
  const fours = <usize>(n & ~3) << 2, left = n & 3;
  if (fours) unary_fours(op, x, y, fours);
  if (!left) return;
  copy_few(x + fours, scratch, left);
  unary_fours(op, scratch, scratch, 16);
  copy_few(scratch, y + fours, left);
}

function copy_few(x: usize, y: usize, n: i32): void {
  for (let i: usize = 0; i < <usize>n << 2; i += 4) store<u32>(y + i, load<u32>(x + i));
}

/** Whole fours: so many bytes of f32. */
function unary_fours(op: Op, x: usize, y: usize, bytes: usize): void {
  const a = f32x4.splat(reinterpret<f32>(op.p1)), b = f32x4.splat(reinterpret<f32>(op.p2));
  switch (op.p0) {
    case 0: return map<Silu>(x, y, bytes, a, b);
    case 1: return map<Gelu>(x, y, bytes, a, b);
    case 2: return map<GeluQuick>(x, y, bytes, a, b);
    case 3: return map<GeluErf>(x, y, bytes, a, b);
    case 4: return map<Relu>(x, y, bytes, a, b);
    case 5: return map<Tanh>(x, y, bytes, a, b);
    case 6: return map<Sigmoid>(x, y, bytes, a, b);
    case 7: return map<Exp>(x, y, bytes, a, b);
    case 8: return map<Scale>(x, y, bytes, a, b);
    case 9: return map<Clamp>(x, y, bytes, a, b);
    case 10: return map<SoftCap>(x, y, bytes, a, b);
    case 11: return map<Sqr>(x, y, bytes, a, b);
    case 12: return map<Sqrt>(x, y, bytes, a, b);
    case 13: return map<Log>(x, y, bytes, a, b);
    case 14: return map<Neg>(x, y, bytes, a, b);
    case 15: return map<Abs>(x, y, bytes, a, b);
    case 16: return map<Step>(x, y, bytes, a, b);
    default: unreachable();
  }
}

function map<F>(x: usize, y: usize, bytes: usize, a: v128, b: v128): void {
  for (let o: usize = 0; o < bytes; o += 16) v128.store(y + o, changetype<F>(0).f(v128.load(x + o), a, b));
}

/**
 * dst = f(gate) * up, p0 = f. With src1: src0 is the gate, src1 is up, both of dst's shape.
 * Without: a row of src0 holds both halves, the gate first, or second where p1 is not 0.
 */
export function glu(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0, dst = op.dst, n = dst.ne0, unit = also_unit(op);
  const apart = changetype<usize>(op.src1) != 0, half = <usize>n << 2;
  const gate = apart || !op.p1 ? <usize>0 : half, up = apart || op.p1 ? <usize>0 : half;
  // Rows are parted, too: a token's only row is work for all threads.
  const per_row = (n + unit - 1) / unit, units = per_row * nrows(dst), to = split_to(units, ith, nth);
  for (let u = split_from(units, ith, nth), end = 0; u < to; u = end) {
    const r = u / per_row, from = u % per_row * unit, o = <usize>from << 2;
    end = min(to, (r + 1) * per_row);
    const k = min(n, (end - r * per_row) * unit) - from;
    glu_row(op.p0, row_at(src0, r) + gate + o, row_at(apart ? op.src1 : src0, r) + up + o, row_at(dst, r) + o, k, scratch);
    also_write(op, r * n + from, k);
  }
}

/** As unary_row. */
function glu_row(kind: i32, g: usize, u: usize, y: usize, n: i32, scratch: usize): void {
  const fours = <usize>(n & ~3) << 2, left = n & 3;
  if (fours) glu_fours(kind, g, u, y, fours);
  if (!left) return;
  copy_few(g + fours, scratch, left);
  copy_few(u + fours, scratch + 16, left);
  glu_fours(kind, scratch, scratch + 16, scratch, 16);
  copy_few(scratch, y + fours, left);
}

function glu_fours(kind: i32, g: usize, u: usize, y: usize, bytes: usize): void {
  switch (kind) {
    case 0: return gate<Silu>(g, u, y, bytes);
    case 1: return gate<Gelu>(g, u, y, bytes);
    case 2: return gate<GeluQuick>(g, u, y, bytes);
    case 3: return gate<GeluErf>(g, u, y, bytes);
    case 4: return gate<Relu>(g, u, y, bytes);
    default: unreachable();
  }
}

function gate<F>(g: usize, u: usize, y: usize, bytes: usize): void {
  const none = f32x4.splat(0);
  for (let o: usize = 0; o < bytes; o += 16) v128.store(y + o, f32x4.mul(changetype<F>(0).f(v128.load(g + o), none, none), v128.load(u + o)));
}
