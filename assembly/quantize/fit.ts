/**
 * Search for the grid entries and the scale of a sub-block of IQ2 and IQ3, where digit l stands for
 * 2 * l + 1 scales. Each candidate of the scale rounds the elements to digits and replaces the
 * digits of a group by the nearest entry. The candidate whose digits fit the elements best gives
 * the final scale: the best one for those digits.
 *
 * f32 sums are in ggml's order, so that the bytes are ggml's. So SIMD computes four candidates at
 * once, one in each lane.
 *
 * Source: ggml-quants.c, the middle of quantize_row_iq2_xxs_impl, _iq2_xs_, _iq2_s_, _iq3_xxs_ and
 * _iq3_s_impl.
 */
import { low_bytes, nearest_i32x4 } from '../type/block/words';
import { Grid, code4, code8 } from './grid';
import { L, ROOT, WEIGHT, X, fail, failed, nearest4, nearest8 } from './work';

/**
 * Groups that are rounded again once the scale is known: those whose digits were not an entry; all
 * groups if there is such a group; or all in any case.
 */
export const OFF_GRID: u32 = 0;
export const ALL_IF_ANY: u32 = 1;
export const ALL: u32 = 2;

/** u8[4][32]: digits of the four candidates. */
const CANDIDATES = memory.data(4 * 32, 16);
/** u8[16][4]: digits of 16 elements, the four candidates interleaved. */
const MIXED = memory.data(4 * 16, 16);
/** f32[4] each. */
const SUM_QX = memory.data(16, 16);
const SUM_Q2 = memory.data(16, 16);
/** u32[4]: a bit for each group whose digits were an entry. */
const HITS = memory.data(16, 16);

@inline
function digits4(x: usize, id: v128, most: v128): v128 {
  const q = nearest_i32x4(f32x4.mul(f32x4.splat(0.5), f32x4.sub(f32x4.mul(id, v128.load(x)), f32x4.splat(1))));
  return i32x4.max_s(i32x4.splat(0), i32x4.min_s(most, q));
}

/** Rounds n elements of X to digits at `to`. */
@inline
function round(n: usize, eight: bool, inverse: f32, to: usize): void {
  const id = f32x4.splat(inverse);
  const most = i32x4.splat(eight ? 2 : 7);
  for (let x = X; x != X + 4 * n; x += 64, to += 16)
    v128.store(to, low_bytes(digits4(x, id, most), digits4(x + 16, id, most), digits4(x + 32, id, most), digits4(x + 48, id, most)));
}

/**
 * Replaces the digits of group k by those of the nearest entry. Returns true if they were an entry
 * already.
 */
@inline
function snap(grid: Grid, eight: bool, scale: f32, to: usize, k: usize): bool {
  if (eight) {
    const code = code8(load<u64>(to + 8 * k));
    const hit = load<i32>(grid.map + 4 * <usize>code) >= 0;
    if (!hit) {
      const index = nearest8(grid, code, X + 32 * k, ROOT + 32 * k, scale, 1, 3, 5);
      store<u64>(to + 8 * k, load<u64>(grid.entries + 8 * <usize>index));
    }
    return hit;
  }
  const code = code4(load<u32>(to + 4 * k));
  const hit = load<i32>(grid.map + 4 * <usize>code) >= 0;
  if (!hit) {
    const index = nearest4(grid, code, X + 16 * k, ROOT + 16 * k, scale);
    store<u32>(to + 4 * k, load<u32>(grid.entries + 4 * <usize>index));
  }
  return hit;
}

/** Computes the fit of the digits of all four candidates to n elements: SUM_QX and SUM_Q2. */
function sum_candidates(n: usize): void {
  let qx = f32x4.splat(0);
  let q2 = f32x4.splat(0);
  for (let at: usize = 0; at < n; at += 16) {
    const a = v128.load(CANDIDATES + at);
    const b = v128.load(CANDIDATES + 32 + at);
    const c = v128.load(CANDIDATES + 64 + at);
    const d = v128.load(CANDIDATES + 96 + at);
    const ab0 = i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const ab1 = i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const cd0 = i8x16.shuffle(c, d, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const cd1 = i8x16.shuffle(c, d, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    v128.store(MIXED, i16x8.shuffle(ab0, cd0, 0, 8, 1, 9, 2, 10, 3, 11));
    v128.store(MIXED, i16x8.shuffle(ab0, cd0, 4, 12, 5, 13, 6, 14, 7, 15), 16);
    v128.store(MIXED, i16x8.shuffle(ab1, cd1, 0, 8, 1, 9, 2, 10, 3, 11), 32);
    v128.store(MIXED, i16x8.shuffle(ab1, cd1, 4, 12, 5, 13, 6, 14, 7, 15), 48);
    for (let i: usize = 0; i < 64; i += 4) {
      const l = i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(MIXED + i)));
      const q = f32x4.convert_i32x4_s(v128.or(i32x4.shl(l, 1), i32x4.splat(1)));
      const w = v128.load32_splat(WEIGHT + 4 * at + i);
      const x = v128.load32_splat(X + 4 * at + i);
      qx = f32x4.add(qx, f32x4.mul(f32x4.mul(w, x), q));
      q2 = f32x4.add(q2, f32x4.mul(f32x4.mul(w, q), q));
    }
  }
  v128.store(SUM_QX, qx);
  v128.store(SUM_Q2, q2);
}

@inline
function fit(grid: Grid, eight: bool, n: usize, range: f32, steps: i32, step: f32, first_scale: f32, first_hits: u32, again: u32): f32 {
  const top: f32 = eight ? 5 : 15;
  const groups = eight ? n >> 3 : n >> 2;
  let scale = first_scale;
  let hits = first_hits;
  let best: f32 = 0;
  for (let first = -steps; first <= steps; first += 4) {
    const count = min(4, steps - first + 1);
    for (let lane = 0; lane < count; lane++) {
      const id = (top + <f32>(first + lane) * step) / range;
      const inverse: f32 = 1 / id;
      const to = CANDIDATES + 32 * <usize>lane;
      round(n, eight, id, to);
      let lane_hits: u32 = 0;
      for (let k: usize = 0; k < groups; k++) if (snap(grid, eight, inverse, to, k)) lane_hits |= 1 << <u32>k;
      store<u32>(HITS + 4 * <usize>lane, lane_hits);
    }
    sum_candidates(n);
    for (let lane: usize = 0; lane < <usize>count; lane++) {
      const qx = load<f32>(SUM_QX + 4 * lane);
      const q2 = load<f32>(SUM_Q2 + 4 * lane);
      if (!(q2 > 0 && qx * qx > best * q2)) continue;
      scale = qx / q2;
      best = scale * qx;
      memory.copy(L, CANDIDATES + 32 * lane, n);
      hits = load<u32>(HITS + 4 * lane);
    }
  }
  const any = hits != (<u32>1 << <u32>groups) - 1;
  if (scale > 0 && (any || again == ALL)) {
    round(n, eight, 1 / scale, CANDIDATES);
    for (let k: usize = 0; k < groups; k++) {
      if (again == OFF_GRID && (hits >> <u32>k) & 1) continue;
      snap(grid, eight, scale, CANDIDATES, k);
      if (eight) store<u64>(L + 8 * k, load<u64>(CANDIDATES + 8 * k));
      else store<u32>(L + 4 * k, load<u32>(CANDIDATES + 4 * k));
    }
    let qx: f32 = 0;
    let q2: f32 = 0;
    for (let i: usize = 0; i < n; i++) {
      const w = load<f32>(WEIGHT + 4 * i);
      const q = <f32>((<u32>load<u8>(L + i) << 1) | 1);
      qx += w * load<f32>(X + 4 * i) * q;
      q2 += w * q * q;
    }
    if (q2 > 0) scale = qx / q2;
  }
  if (!(abs(scale) >= 0)) fail();
  return failed ? 0 : scale;
}

/**
 * Finds the digits of n elements in groups of eight, stores them to L and returns the scale, or 0
 * if `failed` (work.ts). There are 2 * steps + 1 candidates of the scale around range / 5. If no
 * candidate fits, the scale is first_scale, and first_hits tells the groups that are entries.
 */
export function fit8(grid: Grid, n: usize, range: f32, steps: i32, first_scale: f32, first_hits: u32, again: u32): f32 {
  return fit(grid, true, n, range, steps, 0.1, first_scale, first_hits, again);
}

/** As fit8, in groups of four, around range / 15. */
export function fit4(grid: Grid, n: usize, range: f32, steps: i32, first_scale: f32, first_hits: u32, again: u32): f32 {
  return fit(grid, false, n, range, steps, 0.2, first_scale, first_hits, again);
}
