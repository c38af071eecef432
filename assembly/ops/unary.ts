/**
 * Elementwise ops: activation functions, powers, signs, scale, clamp, and gated units (GLU).
 * Elements of a row are contiguous f32; dst may be src0.
 */
import {
  GLU_GELU,
  GLU_GELU_ERF,
  GLU_GELU_QUICK,
  GLU_RELU,
  GLU_SILU,
  GLU_SWIGLU_OAI,
  UNARY_ABS,
  UNARY_CLAMP,
  UNARY_EXP,
  UNARY_GELU,
  UNARY_GELU_ERF,
  UNARY_GELU_QUICK,
  UNARY_LOG,
  UNARY_NEG,
  UNARY_RELU,
  UNARY_SCALE,
  UNARY_SCRATCH_UP,
  UNARY_SIGMOID,
  UNARY_SILU,
  UNARY_SOFTPLUS,
  UNARY_SOFT_CAP,
  UNARY_SQR,
  UNARY_SQRT,
  UNARY_STEP,
  UNARY_TANH,
  UNARY_XIELU,
} from '../layout';
import {
  exp_f32x4,
  exp_of,
  exp_rest,
  gelu_erf_f32x4,
  gelu_f32x4,
  gelu_quick_f32x4,
  log_of,
  sigmoid_f32x4,
  silu_f32x4,
  soft_cap_f32x4,
  softplus_f32x4,
  tanh_f32x4,
} from '../math';
import { range_start, range_end } from '../runtime/schedule';
import { Op, is_dense, nrows, row_at } from '../runtime/tensor';
import { cast_rows, cast_unit, cast_elements } from './casts';

// Functions of an element, as classes. a and b are the op's p1 and p2.
@unmanaged
class Silu {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return silu_f32x4(x);
  }
}
@unmanaged
class Gelu {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return gelu_f32x4(x);
  }
}
@unmanaged
class GeluQuick {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return gelu_quick_f32x4(x);
  }
}
@unmanaged
class GeluErf {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return gelu_erf_f32x4(x);
  }
}
@unmanaged
class Relu {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.pmax(x, f32x4.splat(0));
  }
}
@unmanaged
class Tanh {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return tanh_f32x4(x);
  }
}
@unmanaged
class Sigmoid {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return sigmoid_f32x4(x);
  }
}
@unmanaged
class Exp {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return exp_f32x4(x);
  }
}
/** a x + b */
@unmanaged
class Scale {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.add(f32x4.mul(x, a), b);
  }
}
/** Clamps to [a, b]. */
@unmanaged
class Clamp {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.pmin(f32x4.pmax(x, a), b);
  }
}
/** a tanh(x / a) */
@unmanaged
class SoftCap {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return soft_cap_f32x4(x, a);
  }
}
@unmanaged
class Sqr {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.mul(x, x);
  }
}
@unmanaged
class Sqrt {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.sqrt(x);
  }
}
@unmanaged
class Log {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return log_of(x);
  }
}
@unmanaged
class Neg {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.neg(x);
  }
}
@unmanaged
class Abs {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return f32x4.abs(x);
  }
}
/** 1 if x > 0, else 0 (NaN too). */
@unmanaged
class Step {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return v128.and(f32x4.gt(x, f32x4.splat(0)), f32x4.splat(1));
  }
}
/**
 * xIELU (arXiv 2411.13010) with its factors prepared: a for the negative side, b for the positive,
 * beta for both. 0 belongs to the negative side. Near 0, e^v - 1 - x would cancel almost
 * completely, so exp_rest is used.
 */
@unmanaged
class Xielu {
  @inline f(x: v128, a: v128, b: v128, beta: v128, eps: v128): v128 {
    const v = f32x4.pmin(x, eps);
    const far = f32x4.sub(f32x4.sub(exp_of(v), f32x4.splat(1)), x);
    const near = f32x4.add(f32x4.sub(v, x), f32x4.mul(f32x4.mul(v, v), exp_rest(v)));
    const negative = f32x4.mul(v128.bitselect(near, far, f32x4.lt(f32x4.abs(v), f32x4.splat(0.35))), a);
    const positive = f32x4.mul(f32x4.mul(x, x), b);
    return f32x4.add(v128.bitselect(positive, negative, f32x4.gt(x, f32x4.splat(0))), f32x4.mul(x, beta));
  }
}
/** ln(1 + e^x) */
@unmanaged
class Softplus {
  @inline f(x: v128, a: v128, b: v128): v128 {
    return softplus_f32x4(x);
  }
}

export function unary(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const dst = op.dst;
  if (is_dense(src0) && is_dense(dst)) {
    const unit = cast_unit(op);
    const n = dst.ne0 * nrows(dst);
    const units = (n + unit - 1) / unit;
    const from = range_start(units, ith, nth) * unit;
    const to = min(n, range_end(units, ith, nth) * unit);
    if (from >= to) return;
    unary_row(op, src0.data + (<usize>from << 2), dst.data + (<usize>from << 2), to - from, scratch);
    cast_elements(op, from, to - from);
    return;
  }
  const rows = nrows(dst);
  const from = range_start(rows, ith, nth);
  const to = range_end(rows, ith, nth);
  for (let r = from; r < to; r++) unary_row(op, row_at(src0, r), row_at(dst, r), dst.ne0, scratch);
  cast_rows(op, from, to);
}

/**
 * Computes n elements. The last one to three go through scratch, so that each function is
 * compiled in one loop, over vectors.
 */
function unary_row(op: Op, x: usize, y: usize, n: i32, scratch: usize): void {
  const whole = <usize>(n & ~3) << 2;
  const left = n & 3;
  if (whole) unary_vectors(op, x, y, whole);
  if (!left) return;
  copy_few(x + whole, scratch, left);
  unary_vectors(op, scratch, scratch, 16);
  copy_few(scratch, y + whole, left);
}

function copy_few(x: usize, y: usize, n: i32): void {
  for (let i: usize = 0; i < <usize>n << 2; i += 4) store<u32>(y + i, load<u32>(x + i));
}

/** Computes `bytes` bytes of f32, a multiple of 16. */
function unary_vectors(op: Op, x: usize, y: usize, bytes: usize): void {
  const a = f32x4.splat(reinterpret<f32>(op.p1));
  const b = f32x4.splat(reinterpret<f32>(op.p2));
  // prettier-ignore
  switch (op.p0) {
    case UNARY_SILU: return map<Silu>(x, y, bytes, a, b);
    case UNARY_GELU: return map<Gelu>(x, y, bytes, a, b);
    case UNARY_GELU_QUICK: return map<GeluQuick>(x, y, bytes, a, b);
    case UNARY_GELU_ERF: return map<GeluErf>(x, y, bytes, a, b);
    case UNARY_RELU: return map<Relu>(x, y, bytes, a, b);
    case UNARY_TANH: return map<Tanh>(x, y, bytes, a, b);
    case UNARY_SIGMOID: return map<Sigmoid>(x, y, bytes, a, b);
    case UNARY_EXP: return map<Exp>(x, y, bytes, a, b);
    case UNARY_SCALE: return map<Scale>(x, y, bytes, a, b);
    case UNARY_CLAMP: return map<Clamp>(x, y, bytes, a, b);
    case UNARY_SOFT_CAP: return map<SoftCap>(x, y, bytes, a, b);
    case UNARY_SQR: return map<Sqr>(x, y, bytes, a, b);
    case UNARY_SQRT: return map<Sqrt>(x, y, bytes, a, b);
    case UNARY_LOG: return map<Log>(x, y, bytes, a, b);
    case UNARY_NEG: return map<Neg>(x, y, bytes, a, b);
    case UNARY_ABS: return map<Abs>(x, y, bytes, a, b);
    case UNARY_STEP: return map<Step>(x, y, bytes, a, b);
    case UNARY_XIELU: return map_xielu(x, y, bytes, a, b, f32x4.splat(reinterpret<f32>(op.p3)), f32x4.splat(reinterpret<f32>(op.p4)));
    case UNARY_SOFTPLUS: return map<Softplus>(x, y, bytes, a, b);
    default: unreachable();
  }
}

function map<F>(x: usize, y: usize, bytes: usize, a: v128, b: v128): void {
  for (let o: usize = 0; o < bytes; o += 16) v128.store(y + o, changetype<F>(0).f(v128.load(x + o), a, b));
}

/** As map, for the one function with four parameters. */
function map_xielu(x: usize, y: usize, bytes: usize, a: v128, b: v128, beta: v128, eps: v128): void {
  for (let o: usize = 0; o < bytes; o += 16) v128.store(y + o, changetype<Xielu>(0).f(v128.load(x + o), a, b, beta, eps));
}

/**
 * Gated unit: dst = f(gate) * up, where p0 selects f (swiglu_oai is a unit of its own). With src1, src0 is gate and src1 is up, both of dst's shape. Without, a row of src0
 * holds both: gate first, or up first if p1 is not 0.
 *
 * Not kept: one record for the products of gate and up together with this op (slower with one
 * thread and for prompts, since it has two streams of weights and calls for 32 elements).
 */
export function glu(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const src0 = op.src0;
  const dst = op.dst;
  const n = dst.ne0;
  const unit = cast_unit(op);
  const separate = changetype<usize>(op.src1) != 0;
  const half = <usize>n << 2;
  const gate_at = separate || !op.p1 ? <usize>0 : half;
  const up_at = separate || op.p1 ? <usize>0 : half;
  // Rows are divided too, so that all threads share the only row of a single token.
  const per_row = (n + unit - 1) / unit;
  const units = per_row * nrows(dst);
  const to = range_end(units, ith, nth);
  for (let u = range_start(units, ith, nth), end = 0; u < to; u = end) {
    const r = u / per_row;
    const from = (u % per_row) * unit;
    const o = <usize>from << 2;
    end = min(to, (r + 1) * per_row);
    const k = min(n, (end - r * per_row) * unit) - from;
    glu_row(op.p0, row_at(src0, r) + gate_at + o, row_at(separate ? op.src1 : src0, r) + up_at + o, row_at(dst, r) + o, k, scratch);
    cast_elements(op, r * n + from, k);
  }
}

/** As unary_row, for a gated unit. */
function glu_row(kind: i32, g: usize, u: usize, y: usize, n: i32, scratch: usize): void {
  const whole = <usize>(n & ~3) << 2;
  const left = n & 3;
  if (whole) glu_vectors(kind, g, u, y, whole);
  if (!left) return;
  copy_few(g + whole, scratch, left);
  copy_few(u + whole, scratch + UNARY_SCRATCH_UP, left);
  glu_vectors(kind, scratch, scratch + UNARY_SCRATCH_UP, scratch, 16);
  copy_few(scratch, y + whole, left);
}

function glu_vectors(kind: i32, g: usize, u: usize, y: usize, bytes: usize): void {
  // prettier-ignore
  switch (kind) {
    case GLU_SILU: return gate<Silu>(g, u, y, bytes);
    case GLU_GELU: return gate<Gelu>(g, u, y, bytes);
    case GLU_GELU_QUICK: return gate<GeluQuick>(g, u, y, bytes);
    case GLU_GELU_ERF: return gate<GeluErf>(g, u, y, bytes);
    case GLU_RELU: return gate<Relu>(g, u, y, bytes);
    case GLU_SWIGLU_OAI: return swiglu_oai(g, u, y, bytes);
    default: unreachable();
  }
}

function gate<F>(g: usize, u: usize, y: usize, bytes: usize): void {
  const none = f32x4.splat(0);
  for (let o: usize = 0; o < bytes; o += 16)
    v128.store(y + o, f32x4.mul(changetype<F>(0).f(v128.load(g + o), none, none), v128.load(u + o)));
}

/**
 * The gated unit of gpt-oss, whose activations have a limit of 7: with x = min(gate, 7), the result
 * is x / (1 + e^(-1.702 x)) * (clamp(up, -7, 7) + 1).
 */
function swiglu_oai(g: usize, u: usize, y: usize, bytes: usize): void {
  const limit = f32x4.splat(7);
  const least = f32x4.splat(-7);
  const one = f32x4.splat(1);
  for (let o: usize = 0; o < bytes; o += 16) {
    const x = gelu_quick_f32x4(f32x4.pmin(v128.load(g + o), limit));
    const w = f32x4.pmin(f32x4.pmax(v128.load(u + o), least), limit);
    v128.store(y + o, f32x4.mul(x, f32x4.add(w, one)));
  }
}
