/**
 * Transcendental functions on four lanes, as polynomials. Unlike Math.exp, they give the same bits
 * on every engine.
 *
 * test/kernel/math.test.ts sweeps all of f32 with these bounds:
 *
 *   exp, log                     1 ulp
 *   tanh                         2 ulp
 *   sigmoid, silu                3 ulp (results below 2^-119 may be 0)
 *   gelu, gelu_quick, gelu_erf   5e-7 of the larger of 1 and |result|
 */
import { trunc_fitting } from './simd';

// Four lanes of each constant of e^x. They are loaded, because V8 builds a v128 constant at every
// use, in three instructions.
const CONSTANTS = memory.data<f32>(
  [
    1.44269504088896341, 1.44269504088896341, 1.44269504088896341, 1.44269504088896341, 0.693359375, 0.693359375, 0.693359375, 0.693359375,
    -2.1219444e-4, -2.1219444e-4, -2.1219444e-4, -2.1219444e-4, 1.98756915e-4, 1.98756915e-4, 1.98756915e-4, 1.98756915e-4, 1.3981999507e-3,
    1.3981999507e-3, 1.3981999507e-3, 1.3981999507e-3, 8.3334519073e-3, 8.3334519073e-3, 8.3334519073e-3, 8.3334519073e-3, 4.1665795894e-2,
    4.1665795894e-2, 4.1665795894e-2, 4.1665795894e-2, 1.6666665459e-1, 1.6666665459e-1, 1.6666665459e-1, 1.6666665459e-1, 5.0000001201e-1,
    5.0000001201e-1, 5.0000001201e-1, 5.0000001201e-1, 1, 1, 1, 1, -87.33654, -87.33654, -87.33654, -87.33654, 88.72283, 88.72283, 88.72283,
    88.72283,
  ],
  16,
);

@inline
function constant(i: usize): v128 {
  return v128.load(CONSTANTS + (i << 4));
}

/**
 * e^x. Cephes' range reduction: n = round(x / ln 2), r = x - n ln 2 in two parts, a polynomial of
 * degree 6, times 2^n. Below -87.33 the result is 0 (subnormals are flushed), above 88.72 it is
 * Inf; NaN stays NaN. Maximum error 1 ulp.
 */
@inline
export function exp_f32x4(x: v128): v128 {
  const n = f32x4.nearest(f32x4.mul(x, constant(0)));
  let r = f32x4.sub(x, f32x4.mul(n, constant(1)));
  r = f32x4.sub(r, f32x4.mul(n, constant(2)));
  let p = f32x4.add(f32x4.mul(constant(3), r), constant(4));
  p = f32x4.add(f32x4.mul(p, r), constant(5));
  p = f32x4.add(f32x4.mul(p, r), constant(6));
  p = f32x4.add(f32x4.mul(p, r), constant(7));
  p = f32x4.add(f32x4.mul(p, r), constant(8));
  p = f32x4.add(f32x4.add(f32x4.mul(f32x4.mul(p, r), r), r), constant(9));
  // 2^n as a product of two powers, because 2^128 itself is not an f32. For large x and NaN, n may
  // be anything: the result is replaced below.
  const i = trunc_fitting(n);
  const half = i32x4.shr_s(i, 1);
  const one = constant(9);
  const lo = i32x4.add(i32x4.shl(half, 23), one);
  const hi = i32x4.add(i32x4.shl(i32x4.sub(i, half), 23), one);
  const y = v128.andnot(f32x4.mul(f32x4.mul(p, lo), hi), f32x4.lt(x, constant(10)));
  return v128.bitselect(i32x4.splat(0x7f800000), y, f32x4.gt(x, constant(11)));
}

/**
 * ln x. x = m 2^e with m in [sqrt 1/2, sqrt 2), then Cephes' logf of m - 1, plus e ln 2 in two
 * parts. Subnormals are scaled up first. 0 and -0 give -Inf, numbers below 0 give NaN; Inf and NaN
 * stay.
 */
@inline
export function log_f32x4(x: v128): v128 {
  const subnormal = f32x4.lt(x, i32x4.splat(0x00800000));
  const bits = v128.bitselect(f32x4.mul(x, f32x4.splat(8388608)), x, subnormal);
  const exponent = i32x4.shr_s(i32x4.sub(bits, i32x4.splat(0x3f3504f3)), 23); // relative to sqrt 1/2
  const e = f32x4.convert_i32x4_s(i32x4.sub(exponent, v128.and(subnormal, i32x4.splat(23))));
  const r = f32x4.sub(i32x4.sub(bits, i32x4.shl(exponent, 23)), constant(9));
  const z = f32x4.mul(r, r);
  let p = f32x4.add(f32x4.mul(f32x4.splat(7.0376836292e-2), r), f32x4.splat(-1.151461031e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.167699874e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(-1.2420140846e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.4249322787e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(-1.6668057665e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(2.0000714765e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(-2.4999993993e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(3.3333331174e-1));
  p = f32x4.add(f32x4.mul(f32x4.mul(p, r), z), f32x4.mul(e, constant(2)));
  p = f32x4.add(f32x4.sub(p, f32x4.mul(z, f32x4.splat(0.5))), r);
  p = f32x4.add(p, f32x4.mul(e, constant(1)));
  p = v128.bitselect(p, x, f32x4.lt(x, i32x4.splat(0x7f800000)));
  p = v128.bitselect(i32x4.splat(0xff800000), p, f32x4.eq(x, f32x4.splat(0)));
  return v128.or(p, f32x4.lt(x, f32x4.splat(0)));
}

/** (e^x - 1 - x) / x^2 for x in [-0.35, 0.35]: the polynomial at the end of exp_f32x4. */
export function exp_rest(x: v128): v128 {
  let p = constant(3);
  for (let i = 4; i < 9; i++) p = f32x4.add(f32x4.mul(p, x), constant(i));
  return p;
}

/**
 * exp_f32x4 and log_f32x4 without inlining, for places where code size matters more than a call.
 */
export function exp_of(x: v128): v128 {
  return exp_f32x4(x);
}
export function log_of(x: v128): v128 {
  return log_f32x4(x);
}

/**
 * ln(1 + e^x). A small e^x loses bits in 1 + e^x, so the lost part is added to the logarithm. Above
 * 20 the result is x, as in ggml.
 */
@inline
export function softplus_f32x4(x: v128): v128 {
  const e = exp_of(x);
  const one = f32x4.splat(1);
  const u = f32x4.add(one, e);
  const y = f32x4.add(log_of(u), f32x4.div(f32x4.sub(e, f32x4.sub(u, one)), u));
  return v128.bitselect(x, y, f32x4.gt(x, f32x4.splat(20)));
}

/** 1 / (1 + e^-x). */
@inline
export function sigmoid_f32x4(x: v128): v128 {
  return f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), exp_f32x4(f32x4.neg(x))));
}

/** x / (1 + e^-x). */
@inline
export function silu_f32x4(x: v128): v128 {
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp_f32x4(f32x4.neg(x))));
}

/** tanh x: an odd polynomial below 0.625 (Cephes' tanhf), where 1 - 2 / (e^2x + 1) would cancel. */
@inline
export function tanh_f32x4(x: v128): v128 {
  const one = f32x4.splat(1);
  const a = f32x4.abs(x);
  const z = f32x4.mul(x, x);
  let p = f32x4.splat(-5.70498872745e-3);
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(2.06390887954e-2));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-5.37397155531e-2));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.33314422036e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-3.33332819422e-1));
  const small = f32x4.add(f32x4.mul(f32x4.mul(p, z), x), x);
  const large = f32x4.sub(one, f32x4.div(f32x4.splat(2), f32x4.add(exp_f32x4(f32x4.add(a, a)), one)));
  return v128.bitselect(small, v128.or(large, v128.and(x, i32x4.splat(0x80000000))), f32x4.lt(a, f32x4.splat(0.625)));
}

/** cap * tanh(x / cap), the soft cap of attention scores and logits. */
@inline
export function soft_cap_f32x4(x: v128, cap: v128): v128 {
  return f32x4.mul(cap, tanh_f32x4(f32x4.div(x, cap)));
}

/**
 * x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), computed as x times the sigmoid of twice the
 * argument of tanh.
 */
@inline
export function gelu_f32x4(x: v128): v128 {
  const u = f32x4.mul(
    f32x4.mul(x, f32x4.splat(1.5957691216057308)),
    f32x4.add(f32x4.splat(1), f32x4.mul(f32x4.mul(x, x), f32x4.splat(0.044715))),
  );
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp_f32x4(f32x4.neg(u))));
}

/** x / (1 + e^(-1.702 x)). */
@inline
export function gelu_quick_f32x4(x: v128): v128 {
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp_f32x4(f32x4.mul(x, f32x4.splat(-1.702)))));
}

/**
 * x / 2 (1 + erf(x / sqrt 2)). erf is an odd polynomial below 1 (Cephes' erff) and 1 - erfc above
 * (Numerical Recipes' erfcc). The absolute error of erf is 2e-7.
 */
@inline
export function gelu_erf_f32x4(x: v128): v128 {
  const one = f32x4.splat(1);
  const s = f32x4.mul(x, f32x4.splat(0.70710678118654752));
  const a = f32x4.abs(s);
  const z = f32x4.mul(s, s);
  let p = f32x4.splat(7.853861353153693e-5);
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-8.010193625184903e-4));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(5.188327685732524e-3));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-2.685381193529856e-2));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.128358514861418e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-3.7612625824233e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.12837916572671));
  const t = f32x4.div(one, f32x4.add(one, f32x4.mul(a, f32x4.splat(0.5))));
  let q = f32x4.splat(0.17087277);
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(-0.82215223));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(1.48851587));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(-1.13520398));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(0.27886807));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(-0.18628806));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(0.09678418));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(0.37409196));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(1.00002368));
  q = f32x4.add(f32x4.mul(q, t), f32x4.splat(-1.26551223));
  const erfc = f32x4.mul(t, exp_f32x4(f32x4.sub(q, z)));
  // 1 + erf(s). For s <= -1 this is erfc(|s|) itself, without cancellation.
  const far = v128.bitselect(erfc, f32x4.sub(f32x4.splat(2), erfc), f32x4.lt(s, f32x4.splat(0)));
  const sum = v128.bitselect(f32x4.add(one, f32x4.mul(p, s)), far, f32x4.lt(a, one));
  return f32x4.mul(f32x4.mul(x, f32x4.splat(0.5)), sum);
}
