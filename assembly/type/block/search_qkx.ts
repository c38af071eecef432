/**
 * Searches for the scale and the minimum of a sub-block (x = scale * code - min), and for the codes
 * of the scales themselves. Sums are in ggml's order, four candidates at a time, one in each lane,
 * as in search_qx.ts.
 */
import { EPS, clamp } from './search_qx';
import { LANES } from './work';
import { nearest_i32x4, nearest_int } from './words';

/**
 * Codes of four values that are already scaled. With `guard`, values not above 0 (NaN included)
 * become 0, and large values are clamped before rounding.
 */
@inline
function codes4(v: v128, nmax: i32, guard: bool): v128 {
  if (guard) {
    const cut = f32x4.pmin(f32x4.splat(<f32>nmax), v);
    return v128.and(f32x4.convert_i32x4_s(nearest_i32x4(cut)), f32x4.gt(v, f32x4.splat(0)));
  }
  return f32x4.convert_i32x4_s(i32x4.max_s(i32x4.splat(0), i32x4.min_s(i32x4.splat(nmax), nearest_i32x4(v))));
}

/** |diff| or diff^2. */
@inline
function penalty(diff: v128, use_mad: bool): v128 {
  return use_mad ? f32x4.abs(diff) : f32x4.mul(diff, diff);
}

/**
 * ggml's make_qkx2_quants (guard false) and make_qkx3_quants (guard true). x: n elements with
 * weights w. Stores codes 0..nmax to L and minus the minimum to the f32 at the_min; returns the
 * scale.
 *
 * A winning candidate changes the minimum from which later candidates start. Those computed in the
 * same vector after it are then discarded. That is rare, so most vectors are used whole.
 */
export function make_qkx_quants(
  n: i32,
  nmax: i32,
  x: usize,
  w: usize,
  L: usize,
  the_min: usize,
  work: usize,
  rmin: f32,
  rdelta: f32,
  nstep: i32,
  use_mad: bool,
  guard: bool,
): f32 {
  const bytes = <usize>n << 2;
  let min = load<f32>(x);
  let max = min;
  let sum_w = load<f32>(w);
  let sum_x = sum_w * min;
  for (let i: usize = 4; i < bytes; i += 4) {
    const v = load<f32>(x + i);
    if (v < min) min = v;
    if (v > max) max = v;
    sum_w += load<f32>(w + i);
    sum_x += load<f32>(w + i) * v;
  }
  if (min > 0) min = 0;
  if (max == min) {
    memory.fill(L, 0, n);
    store<f32>(the_min, -min);
    return 0;
  }
  let best_iscale = <f32>nmax / (max - min);
  let best_from = min;
  let start = true; // the winner is the first candidate, whose codes are never guarded
  let scale: f32 = 1 / best_iscale;
  let best: f32 = 0;
  for (let i: usize = 0; i < bytes; i += 4) {
    const v = load<f32>(x + i);
    const l = clamp(nearest_int(best_iscale * (v - min)), 0, nmax);
    const diff = scale * <f32>l + min - v;
    best += load<f32>(w + i) * (use_mad ? abs(diff) : diff * diff);
  }
  const codes = work + LANES;
  const lanes = codes + 512;
  for (let step = 0; step <= nstep;) {
    const from = f32x4.splat(min);
    const steps = f32x4.convert_i32x4_s(i32x4.add(i32x4.splat(step), i32x4(0, 1, 2, 3)));
    const iscale = f32x4.div(
      f32x4.add(f32x4.add(f32x4.splat(rmin), f32x4.mul(f32x4.splat(rdelta), steps)), f32x4.splat(<f32>nmax)),
      f32x4.splat(max - min),
    );
    let sum_l = f32x4.splat(0);
    let sum_l2 = f32x4.splat(0);
    let sum_xl = f32x4.splat(0);
    for (let i: usize = 0; i < bytes; i += 4) {
      const v = v128.load32_splat(x + i);
      const l = codes4(f32x4.mul(iscale, f32x4.sub(v, from)), nmax, guard);
      v128.store(codes + 4 * i, l);
      const wl = f32x4.mul(v128.load32_splat(w + i), l);
      sum_l = f32x4.add(sum_l, wl);
      sum_l2 = f32x4.add(sum_l2, f32x4.mul(wl, l));
      sum_xl = f32x4.add(sum_xl, f32x4.mul(wl, v));
    }
    const W = f32x4.splat(sum_w);
    const X = f32x4.splat(sum_x);
    const D = f32x4.sub(f32x4.mul(W, sum_l2), f32x4.mul(sum_l, sum_l));
    let this_scale = f32x4.div(f32x4.sub(f32x4.mul(W, sum_xl), f32x4.mul(X, sum_l)), D);
    let this_min = f32x4.div(f32x4.sub(f32x4.mul(sum_l2, X), f32x4.mul(sum_l, sum_xl)), D);
    const positive = f32x4.gt(this_min, f32x4.splat(0));
    this_min = v128.andnot(this_min, positive);
    this_scale = v128.bitselect(f32x4.div(sum_xl, sum_l2), this_scale, positive);
    let error = f32x4.splat(0);
    for (let i: usize = 0; i < bytes; i += 4) {
      const diff = f32x4.sub(f32x4.add(f32x4.mul(this_scale, v128.load(codes + 4 * i)), this_min), v128.load32_splat(x + i));
      error = f32x4.add(error, f32x4.mul(v128.load32_splat(w + i), penalty(diff, use_mad)));
    }
    v128.store(lanes, D);
    v128.store(lanes, error, 16);
    v128.store(lanes, this_scale, 32);
    v128.store(lanes, this_min, 48);
    v128.store(lanes, iscale, 64);
    const end = step + 4 < nstep + 1 ? step + 4 : nstep + 1;
    for (let p = lanes; step < end; step++, p += 4) {
      if (load<f32>(p) > 0 && load<f32>(p, 16) < best) {
        start = false;
        best = load<f32>(p, 16);
        scale = load<f32>(p, 32);
        best_iscale = load<f32>(p, 64);
        best_from = min;
        const moved = load<f32>(p, 48) != min;
        min = load<f32>(p, 48);
        if (moved) {
          step++;
          break;
        }
      }
    }
  }
  const from = f32x4.splat(best_from);
  const is = f32x4.splat(best_iscale);
  for (let i: usize = 0; i < bytes; i += 16, L += 4) {
    const v = f32x4.mul(is, f32x4.sub(v128.load(x + i), from));
    const l = i32x4.trunc_sat_f32x4_u(start ? codes4(v, nmax, false) : codes4(v, nmax, guard));
    store<u32>(L, i32x4.extract_lane(i8x16.shuffle(l, l, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12), 0));
  }
  store<f32>(the_min, -min);
  return scale;
}

/**
 * ggml's make_qp_quants, for n numbers that are not negative, with weights w. Stores codes 0..nmax
 * to L; returns the scale.
 */
export function make_qp_quants(n: i32, nmax: i32, x: usize, L: usize, w: usize): f32 {
  let max: f32 = 0;
  for (let i: usize = 0; i < <usize>n; i++) {
    const v = load<f32>(x + 4 * i);
    max = max > v ? max : v; // a NaN replaces the maximum so far, and the next number replaces the NaN
  }
  if (max < EPS) {
    memory.fill(L, 0, n);
    return 0;
  }
  let iscale: f32 = <f32>nmax / max;
  let best: f32 = 0;
  for (let step = -5; step <= 4; step++) {
    if (step == 0) continue;
    const start = step == -5;
    const try_iscale: f32 = start ? iscale : (<f32>0.1 * <f32>step + <f32>nmax) / max;
    const try_scale: f32 = 1 / try_iscale;
    let mse: f32 = 0;
    for (let i: usize = 0; i < <usize>n; i++) {
      const v = load<f32>(x + 4 * i);
      let l = nearest_int(try_iscale * v);
      l = start ? l & 255 : l < nmax ? l : nmax;
      const diff = v - try_scale * <f32>l;
      mse += load<f32>(w + 4 * i) * diff * diff;
    }
    if (start) best = mse;
    else if (mse < best) {
      best = mse;
      iscale = try_iscale;
    }
  }
  let sumlx: f32 = 0;
  let suml2: f32 = 0;
  for (let i: usize = 0; i < <usize>n; i++) {
    const v = load<f32>(x + 4 * i);
    const weight = load<f32>(w + 4 * i);
    let l = nearest_int(iscale * v);
    l = l < nmax ? l : nmax;
    store<u8>(L + i, <u8>l);
    sumlx += weight * v * <f32>l;
    suml2 += weight * <f32>l * <f32>l;
  }
  for (let round = 0; round < 5; round++) {
    let changed = false;
    for (let i: usize = 0; i < <usize>n; i++) {
      const v = load<f32>(x + 4 * i);
      const weight = load<f32>(w + 4 * i);
      const l = load<u8>(L + i);
      let slx = sumlx - weight * v * <f32>l;
      let sl2 = suml2 - weight * <f32>l * <f32>l;
      if (!(slx > 0 && sl2 > 0)) continue;
      let to = nearest_int((v * sl2) / slx);
      to = to < nmax ? to : nmax;
      if (to == <i32>l) continue;
      slx += weight * v * <f32>to;
      sl2 += weight * <f32>to * <f32>to;
      if (slx * slx * suml2 > sumlx * sumlx * sl2) {
        store<u8>(L + i, <u8>to);
        sumlx = slx;
        suml2 = sl2;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return suml2 > 0 ? sumlx / suml2 : 0;
}
