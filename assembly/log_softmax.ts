/**
 * Kernels of perplexity, on a row of logits: its log-sum-exp, its log-probabilities as 16-bit
 * codes, and its divergence from another model's log-probabilities.
 */
import { exp_f32x4 } from './math';

/**
 * Exponentials that are added in f32 lanes before the lanes join the f64 sum. That is 16 a lane,
 * whose rounding error is below that of exp.
 */
const PART: i32 = 64;

@inline
function add_lanes(v: v128): f64 {
  return <f64>f32x4.extract_lane(v, 0) + <f64>f32x4.extract_lane(v, 1) + (<f64>f32x4.extract_lane(v, 2) + <f64>f32x4.extract_lane(v, 3));
}

@inline
function exp(x: f32): f32 {
  return f32x4.extract_lane(exp_f32x4(f32x4.splat(x)), 0);
}

/**
 * Stores four f64 at out for the n f32 at x: the largest, the smallest, the sum of e^(x - largest),
 * and the index of the largest (the first if several are equal). A NaN makes the sum NaN.
 */
export function sum_exp(x: usize, n: i32, out: usize): void {
  let largest = load<f32>(x);
  let smallest = largest;
  let at = 0;
  for (let i = 1; i < n; i++) {
    const v = load<f32>(x + (<usize>i << 2));
    if (v > largest) {
      largest = v;
      at = i;
    }
    smallest = v < smallest ? v : smallest;
  }
  const max = f32x4.splat(largest);
  const whole = n & ~3;
  let sum: f64 = 0;
  for (let from = 0; from < whole; from += PART) {
    let part = f32x4.splat(0);
    const to = min(from + PART, whole);
    for (let i = from; i < to; i += 4) part = f32x4.add(part, exp_f32x4(f32x4.sub(v128.load(x + (<usize>i << 2)), max)));
    sum += add_lanes(part);
  }
  for (let i = whole; i < n; i++) sum += <f64>exp(load<f32>(x + (<usize>i << 2)) - largest);
  store<f64>(out, <f64>largest);
  store<f64>(out, <f64>smallest, 8);
  store<f64>(out, sum, 16);
  store<f64>(out, <f64>at, 24);
}

/**
 * Quantises the n f32 at x to u16 at y: 0 for numbers up to `floor`; above it, the distance in
 * steps of 1 / inv_scale, rounded half to even (llama-perplexity's nearest_int).
 */
export function pack_log_probs(x: usize, n: i32, y: usize, floor: f32, inv_scale: f32): void {
  for (let i = 0; i < n; i++) {
    const v = load<f32>(x + (<usize>i << 2));
    store<u16>(y + (<usize>i << 1), v > floor ? <u16>min<i32>(65535, <i32>nearest<f32>(inv_scale * (v - floor))) : 0);
  }
}

/**
 * Returns the Kullback-Leibler divergence of a row (n f32 at x, log-sum-exp `norm`) from a base
 * model's log-probabilities `scale * q + floor`, q being the n u16 at base.
 *
 * The sum of p_base * (ln p_base - ln p) leaves out tokens with p_base <= e^-16. Stores at out, as
 * f64, the index of the largest q (the first if several are equal).
 */
export function kl_divergence(x: usize, n: i32, norm: f32, base: usize, scale: f32, floor: f32, out: usize): f64 {
  let sum: f64 = 0;
  let largest: u32 = 0;
  let at = 0;
  for (let i = 0; i < n; i++) {
    const q = <u32>load<u16>(base + (<usize>i << 1));
    const log_base = scale * <f32>q + floor;
    if (q > largest) {
      largest = q;
      at = i;
    }
    if (log_base > -16) sum += <f64>(exp(log_base) * (log_base - load<f32>(x + (<usize>i << 2)) + norm));
  }
  store<f64>(out, <f64>at);
  return sum;
}
