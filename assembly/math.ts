/** Transcendental functions on four lanes, as polynomials: the same bits on every engine, unlike Math.exp. */

/**
 * e^x. Cephes' range reduction: n = round(x / ln 2), r = x - n ln 2 in two parts, degree-6 polynomial, times 2^n.
 * Below -87.33 the result is 0 (subnormals are flushed), above 88.72 it is Inf; NaN stays NaN. Maximum error 1 ulp, see test/kernel/math.test.ts.
 */
// @ts-ignore: decorator
@inline
export function exp_f32x4(x: v128): v128 {
  const n = f32x4.nearest(f32x4.mul(x, f32x4.splat(1.44269504088896341)));
  let r = f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375)));
  r = f32x4.sub(r, f32x4.mul(n, f32x4.splat(-2.12194440e-4)));
  let p = f32x4.splat(1.9875691500e-4);
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.3981999507e-3));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(8.3334519073e-3));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(4.1665795894e-2));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.6666665459e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(5.0000001201e-1));
  p = f32x4.add(f32x4.add(f32x4.mul(f32x4.mul(p, r), r), r), f32x4.splat(1));
  // 2^n in two halves, so that n = 128 does not leave the exponent's range before the product does.
  const i = i32x4.trunc_sat_f32x4_s(n);
  const half = i32x4.shr_s(i, 1);
  const lo = i32x4.shl(i32x4.add(half, i32x4.splat(127)), 23);
  const hi = i32x4.shl(i32x4.add(i32x4.sub(i, half), i32x4.splat(127)), 23);
  let y = f32x4.mul(f32x4.mul(p, lo), hi);
  y = v128.bitselect(f32x4.splat(0), y, f32x4.lt(x, f32x4.splat(-87.33654)));
  return v128.bitselect(i32x4.splat(0x7f800000), y, f32x4.gt(x, f32x4.splat(88.72283)));
}

/** x / (1 + e^-x). */
// @ts-ignore: decorator
@inline
export function silu_f32x4(x: v128): v128 {
  return f32x4.div(x, f32x4.add(f32x4.splat(1), exp_f32x4(f32x4.neg(x))));
}
