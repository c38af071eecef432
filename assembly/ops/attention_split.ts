/**
 * One KV split for one row: scores become probabilities; and the merging of the states of splits.
 * Pointers are to f32.
 */
import { ATTENTION_STATE } from '../layout';
import { soft_cap_f32x4 } from '../math';
import { f16_to_f32, hmax_f32, hsum_f32, madd } from '../simd';
import { F16 } from '../type/ids';

/**
 * Lower than any score, but finite: then the differences in a row that holds only -Infinity are
 * finite too. Scores below it are masked as well.
 */
export const LOWEST: f32 = -1e30;
export const LOG2E: f32 = 1.44269504088896341;

/**
 * Probabilities are scaled by this power of two. Values of the f16 cache arrive times 2^-112, and
 * so the products stay far from the limits of f32. With a unified maximum, scores may exceed it by
 * RANGE: 256 keys of 2^(P_SHIFT + RANGE) times f16's largest, 2^16, are finite.
 */
const P_SHIFT: f32 = 60;
const SHIFT: f32 = 1152921504606846976; // 2^P_SHIFT
const RANGE: f32 = 40;

// Constants of 2^x, four lanes each: the smallest x, the magic number 1.5 * 2^23, the polynomial's
// coefficients c6 .. c0, and the magic number plus P_SHIFT.
const TABLE: usize = memory.data<f32>(
  [
    -126,
    -126,
    -126,
    -126,
    12582912,
    12582912,
    12582912,
    12582912,
    1.5345812e-4,
    1.5345812e-4,
    1.5345812e-4,
    1.5345812e-4,
    1.3399931e-3,
    1.3399931e-3,
    1.3399931e-3,
    1.3399931e-3,
    9.618489e-3,
    9.618489e-3,
    9.618489e-3,
    9.618489e-3,
    5.5503288e-2,
    5.5503288e-2,
    5.5503288e-2,
    5.5503288e-2,
    0.24022647,
    0.24022647,
    0.24022647,
    0.24022647,
    0.69314721,
    0.69314721,
    0.69314721,
    0.69314721,
    1,
    1,
    1,
    1,
    12582912 + P_SHIFT,
    12582912 + P_SHIFT,
    12582912 + P_SHIFT,
    12582912 + P_SHIFT,
  ],
  16,
);

/**
 * 2^x for x in -126..126 (below: 2^-126), times 2^P_SHIFT if `magic` includes it. x = n + r: adding
 * 1.5 * 2^23 rounds x to n, whose bits then go into the exponent. 2^r is a polynomial of degree 6,
 * exact at 0. Maximum error 2 ulp (test/kernel/math.test.ts). c6 .. c0: the coefficients, which a
 * loop loads once and keeps in registers.
 */
@inline
function exp2_by(x: v128, magic: v128, least: v128, c6: v128, c5: v128, c4: v128, c3: v128, c2: v128, c1: v128, c0: v128): v128 {
  x = f32x4.pmax(x, least); // x < -126 ? -126 : x, so that NaN stays NaN
  const t = f32x4.add(x, magic);
  const r = f32x4.sub(x, f32x4.sub(t, magic));
  let p = madd(c6, r, c5);
  p = madd(p, r, c4);
  p = madd(p, r, c3);
  p = madd(p, r, c2);
  p = madd(p, r, c1);
  p = madd(p, r, c0);
  return i32x4.add(p, i32x4.shl(t, 23));
}

@inline
function exp2_f32x4(x: v128): v128 {
  return exp2_by(
    x,
    v128.load(TABLE, 16),
    v128.load(TABLE),
    v128.load(TABLE, 32),
    v128.load(TABLE, 48),
    v128.load(TABLE, 64),
    v128.load(TABLE, 80),
    v128.load(TABLE, 96),
    v128.load(TABLE, 112),
    v128.load(TABLE, 128),
  );
}

/** y = 2^x for n values. For tests. */
export function exp2_row(x: usize, y: usize, n: i32): void {
  for (let i: usize = 0; i < <usize>n << 2; i += 16) v128.store(y + i, exp2_f32x4(v128.load(x + i)));
}

/** s = log2(e) * cap * tanh(s / cap) for n scores; n is a multiple of 4. */
export function cap_row(s: usize, n: i32, cap: f32): void {
  const c = f32x4.splat(cap);
  const l = f32x4.splat(LOG2E);
  for (let i: usize = 0; i < <usize>n << 2; i += 16) v128.store(s + i, f32x4.mul(soft_cap_f32x4(v128.load(s + i), c), l));
}

/** s += log2(e) * slope * mask for n scores. The mask is f16 or f32, as `type` says. */
export function mask_row(s: usize, n: i32, mask: usize, type: u32, slope: f32): void {
  const f = slope * LOG2E;
  for (let i: usize = 0; i < <usize>n; i++) {
    const m = type == F16 ? f16_to_f32(load<u16>(mask + (i << 1))) : load<f32>(mask + (i << 2));
    store<f32>(s + (i << 2), load<f32>(s + (i << 2)) + m * f);
  }
}

/**
 * s -= log2(e) * slope * |pos - key| for n scores, the first of which is for position `key`: ALiBi.
 */
export function alibi_row(s: usize, n: i32, pos: i32, key: i32, slope: f32): void {
  const f = slope * LOG2E;
  for (let i = 0; i < n; i++) store<f32>(s + (<usize>i << 2), load<f32>(s + (<usize>i << 2)) - <f32>abs(pos - key - i) * f);
}

/**
 * s += log2(e) * table[distance] for each of n keys, by its distance from pos. The table has rows
 * of `step` bytes: the middle one for pos itself, the first and the last for all keys further away.
 */
export function distance_row(s: usize, n: i32, pos: i32, key: i32, table: usize, step: usize, most: i32): void {
  for (let i = 0; i < n; i++) {
    const row = min(most, max(-most, key + i - pos)) + most;
    store<f32>(s + (<usize>i << 2), load<f32>(s + (<usize>i << 2)) + load<f32>(table + <usize>row * step) * LOG2E);
  }
}

/**
 * Turns a row's scores (log2) of `width` keys into 2^(score - max) * 2^P_SHIFT, in place, and
 * stores max and sum to the state. Keys outside [lo, hi) get 0, and so do scores more than 126
 * below max. So masked keys have no effect, and a row of masked keys has sum 0.
 *
 * With `unified`, max is phi, and the result is false if a score is too far from it. Then the row
 * and its state are invalid.
 */
export function softmax_row(s: usize, width: i32, lo: i32, hi: i32, state: usize, unified: bool, phi: f32): bool {
  const bytes = <usize>width << 2;
  fill_row(s, 0, lo, -Infinity);
  fill_row(s, hi, width, -Infinity);
  let m = phi;
  let top = f32x4.splat(LOWEST);
  if (!unified) {
    for (let i: usize = 0; i < bytes; i += 16) top = f32x4.pmax(top, v128.load(s + i));
    m = hmax_f32(top);
  }
  const mm = f32x4.splat(m);
  const magic = v128.load(TABLE, 144);
  const least = v128.load(TABLE);
  const c6 = v128.load(TABLE, 32);
  const c5 = v128.load(TABLE, 48);
  const c4 = v128.load(TABLE, 64);
  const c3 = v128.load(TABLE, 80);
  const c2 = v128.load(TABLE, 96);
  const c1 = v128.load(TABLE, 112);
  const c0 = v128.load(TABLE, 128);
  let sum = f32x4.splat(0);
  for (let i: usize = 0; i < bytes; i += 16) {
    const x = v128.load(s + i);
    const d = f32x4.sub(x, mm);
    const e = v128.andnot(exp2_by(d, magic, least, c6, c5, c4, c3, c2, c1, c0), f32x4.le(d, least)); // NaN stays NaN
    if (unified) top = f32x4.pmax(top, x);
    sum = f32x4.add(sum, e);
    v128.store(s + i, e);
  }
  fill_row(s, 0, lo, 0);
  fill_row(s, hi, width, 0);
  store<f32>(state, m);
  store<f32>(state, hsum_f32(sum), 4);
  return !unified || abs<f32>(hmax_f32(top) - phi) <= RANGE;
}

@inline
function fill_row(s: usize, from: i32, to: i32, v: f32): void {
  for (let i = from; i < to; i++) store<f32>(s + (<usize>i << 2), v);
}

/** Clears a state to that of a row that has seen no key. hd: number of outputs. */
export function state_clear(state: usize, hd: i32): void {
  memory.fill(state, 0, <usize>(hd + ATTENTION_STATE) << 2);
  store<f32>(state, LOWEST);
}

/**
 * Merges the state of one more split into a row's state. Both are scaled to the larger maximum, or
 * not at all if the maxima are equal.
 */
export function state_merge(state: usize, split: usize, hd: i32): void {
  const m0 = load<f32>(state);
  const m1 = load<f32>(split);
  const m = max(m0, m1);
  let a: f32 = 1;
  let b: f32 = 1;
  if (m0 != m1) {
    const e = exp2_f32x4(f32x4(m0 - m, m1 - m, 0, 0));
    a = f32x4.extract_lane(e, 0);
    b = f32x4.extract_lane(e, 1);
  }
  store<f32>(state, m);
  store<f32>(state, load<f32>(state, 4) * a + load<f32>(split, 4) * b, 4);
  const aa = f32x4.splat(a);
  const bb = f32x4.splat(b);
  for (let i: usize = ATTENTION_STATE << 2; i < <usize>(hd + ATTENTION_STATE) << 2; i += 16) {
    v128.store(state + i, f32x4.add(f32x4.mul(v128.load(state + i), aa), f32x4.mul(v128.load(split + i), bb)));
  }
}

/**
 * Adds a sink to the sum: a score that has no value. A sink more than 2^66 above the row's maximum
 * leaves nothing of the outputs, so larger ones are cut to that.
 */
export function state_join_sink(state: usize, sink: f32): void {
  const d = min<f32>(sink * LOG2E - load<f32>(state), 66);
  const e = f32x4.extract_lane(exp2_f32x4(f32x4.splat(d)), 0);
  store<f32>(state, load<f32>(state, 4) + e * SHIFT, 4);
}

/**
 * y[0..n) = outputs * scale / sum, or 0 if all keys are masked, as in ggml. scale: corrects the
 * power of two by which outputs are too small.
 */
export function state_output(state: usize, y: usize, n: i32, scale: f32): void {
  const sum = load<f32>(state, 4);
  const f = sum == 0 ? <f32>0 : scale / sum;
  const x = state + (ATTENTION_STATE << 2);
  for (let i: usize = 0; i < <usize>n << 2; i += 4) store<f32>(y + i, load<f32>(x + i) * f);
}
