/**
 * Searches for the scale of a sub-block without a minimum. f32 sums are in ggml's order, so that
 * the bytes are ggml's. So SIMD computes four candidates at once, one in each lane, each summed
 * element by element.
 */
import { LANES, SUM_WEIGHT, WEIGHT } from './work';
import { nearest_i32x4, nearest_int } from './words';

/** If every element is below this, all become zero (GROUP_MAX_EPS). */
@inline
export const EPS: f32 = 1e-15;

@inline
export function clamp(x: i32, lo: i32, hi: i32): i32 {
  return max(lo, min(hi, x));
}

/** Sum of x^2 of n f32, added one by one. */
export function sum_squares(x: usize, n: i32): f32 {
  let sum: f32 = 0;
  for (const end = x + (<usize>n << 2); x < end; x += 4) sum += load<f32>(x) * load<f32>(x);
  return sum;
}

/** Sum of n f32, added one by one. */
export function sum_row(x: usize, n: i32): f32 {
  let sum: f32 = 0;
  for (const end = x + (<usize>n << 2); x < end; x += 4) sum += load<f32>(x);
  return sum;
}

/** w = imatrix * sqrt(sigma2 + x^2), or x^2 without an imatrix. n is a multiple of 4. */
export function weigh(w: usize, x: usize, imatrix: usize, sigma2: f32, n: i32): void {
  const s = f32x4.splat(sigma2);
  for (const end = w + (<usize>n << 2); w < end; w += 16, x += 16) {
    const v = v128.load(x);
    let r = f32x4.mul(v, v);
    if (imatrix) {
      r = f32x4.mul(v128.load(imatrix), f32x4.sqrt(f32x4.add(s, r)));
      imatrix += 16;
    }
    v128.store(w, r);
  }
}

/**
 * Computes the weights of sub-block j (of n elements) of the block at x, and their sum: WEIGHT and
 * SUM_WEIGHT of the work area.
 */
export function weigh_sub_block(work: usize, x: usize, imatrix: usize, sigma2: f32, n: i32, j: usize): void {
  const at = (<usize>n << 2) * j;
  weigh(work + WEIGHT, x + at, imatrix + at, sigma2, n);
  store<f32>(work + SUM_WEIGHT + 4 * j, sum_row(work + WEIGHT, n));
}

/**
 * Element of largest magnitude (the first if several are equal, NaN ignored); 0 if all are below
 * EPS.
 */
function signed_max(x: usize, n: i32): f32 {
  let amax: f32 = 0;
  let max: f32 = 0;
  for (const end = x + (<usize>n << 2); x < end; x += 4) {
    const v = load<f32>(x);
    if (abs(v) > amax) {
      amax = abs(v);
      max = v;
    }
  }
  return amax < EPS ? 0 : max;
}

function store_codes(n: i32, nmax: i32, x: usize, L: usize, iscale: f32): void {
  for (let i: usize = 0; i < <usize>n; i++)
    store<u8>(L + i, <u8>(nmax + clamp(nearest_int(iscale * load<f32>(x + 4 * i)), -nmax, nmax - 1)));
}

/**
 * ggml's make_qx_quants with rmse_type 1: stores codes 0..2*nmax-1 (for -nmax..nmax-1) to L and
 * returns the scale. w: weights, or 0 for x^2. Tries 19 scales: the one that maps the largest
 * element to -nmax, and 18 around it.
 */
export function make_qx_quants(n: i32, nmax: i32, x: usize, L: usize, w: usize, work: usize): f32 {
  const max = signed_max(x, n);
  if (max == 0) {
    memory.fill(L, 0, n);
    return 0;
  }
  let best_iscale: f32 = <f32>-nmax / max;
  let scale: f32 = 0;
  let best: f32 = 0;
  const lo = i32x4.splat(-nmax);
  const hi = i32x4.splat(nmax - 1);
  // Candidate 0 is the start; candidates 1..18 are steps -9..-1 and 1..9.
  for (let first = 0; first < 19; first += 4) {
    let steps = i32x4.add(i32x4.splat(first), i32x4(0, 1, 2, 3));
    steps = v128.bitselect(i32x4.sub(steps, i32x4.splat(10)), i32x4.sub(steps, i32x4.splat(9)), i32x4.lt_s(steps, i32x4.splat(10)));
    let iscale = f32x4.div(
      f32x4.neg(f32x4.add(f32x4.splat(<f32>nmax), f32x4.mul(f32x4.splat(0.1), f32x4.convert_i32x4_s(steps)))),
      f32x4.splat(max),
    );
    if (first == 0) iscale = f32x4.replace_lane(iscale, 0, best_iscale);
    let sumlx = f32x4.splat(0);
    let suml2 = f32x4.splat(0);
    for (let i: usize = 0; i < <usize>n << 2; i += 4) {
      const v = v128.load32_splat(x + i);
      const weight = w ? v128.load32_splat(w + i) : f32x4.mul(v, v);
      const l = f32x4.convert_i32x4_s(i32x4.max_s(lo, i32x4.min_s(hi, nearest_i32x4(f32x4.mul(iscale, v)))));
      sumlx = f32x4.add(sumlx, f32x4.mul(f32x4.mul(weight, v), l));
      suml2 = f32x4.add(suml2, f32x4.mul(f32x4.mul(weight, l), l));
    }
    v128.store(work + LANES, iscale);
    v128.store(work + LANES, sumlx, 16);
    v128.store(work + LANES, suml2, 32);
    for (let lane = 0; lane < 4 && first + lane < 19; lane++) {
      const p = work + LANES + (<usize>lane << 2);
      const lx = load<f32>(p, 16);
      const l2 = load<f32>(p, 32);
      if (first + lane == 0) {
        scale = l2 != 0 ? lx / l2 : 0;
        best = scale * lx;
      } else if (l2 > 0 && lx * lx > best * l2) {
        scale = lx / l2;
        best = scale * lx;
        best_iscale = load<f32>(p);
      }
    }
  }
  store_codes(n, nmax, x, L, best_iscale);
  return scale;
}

/**
 * ggml's make_q3_quants: codes as in make_qx_quants, then up to five rounds that move single codes
 * if that lowers the error, weighted by x^2.
 */
export function make_q3_quants(n: i32, nmax: i32, x: usize, L: usize): f32 {
  const max = signed_max(x, n);
  if (max == 0) {
    memory.fill(L, 0, n);
    return 0;
  }
  const iscale = <f32>-nmax / max;
  let sumlx: f32 = 0;
  let suml2: f32 = 0;
  for (let i: usize = 0; i < <usize>n; i++) {
    const v = load<f32>(x + 4 * i);
    const l = clamp(nearest_int(iscale * v), -nmax, nmax - 1);
    store<i8>(L + i, <i8>l);
    const w = v * v;
    sumlx += w * v * <f32>l;
    suml2 += w * <f32>l * <f32>l;
  }
  for (let round = 0; round < 5; round++) {
    let changed = false;
    for (let i: usize = 0; i < <usize>n; i++) {
      const v = load<f32>(x + 4 * i);
      const l = <f32>load<i8>(L + i);
      const w = v * v;
      let slx = sumlx - w * v * l;
      if (slx > 0) {
        let sl2 = suml2 - w * l * l;
        const to = clamp(nearest_int((v * sl2) / slx), -nmax, nmax - 1);
        if (<f32>to != l) {
          slx += w * v * <f32>to;
          sl2 += w * <f32>to * <f32>to;
          if (sl2 > 0 && slx * slx * suml2 > sumlx * sumlx * sl2) {
            store<i8>(L + i, <i8>to);
            sumlx = slx;
            suml2 = sl2;
            changed = true;
          }
        }
      }
    }
    if (!changed) break;
  }
  for (let i: usize = 0; i < <usize>n; i++) store<i8>(L + i, load<i8>(L + i) + <i8>nmax);
  return suml2 > 0 ? sumlx / suml2 : 0;
}
