/**
 * Quantisers of iq1_s and iq1_m; ../type/block/ has pictures of their bytes. They return false if
 * ggml would abort (`failed` in work.ts).
 *
 * Elements become -1, 0 and 1, each plus or minus an eighth: one sign for a sub-block, in iq1_m for
 * eight elements. The sorted elements are split into three parts in all possible ways, and the best
 * split gives the digits. Then each eight digits are replaced by a nearby entry.
 *
 * Source: ggml-quants.c, quantize_row_iq1_s_impl, quantize_row_iq1_m_impl.
 */
import { f32_to_f16 } from '../simd';
import { sum_squares, weigh } from '../type/block/search_qx';
import { Grid, code8 } from './grid';
import { L, SCALES, WEIGHT, fail, failed, larger, largest, nearest8, scale_code } from './work';

/**
 * If all elements of a sub-block are below this, they become zero (GROUP_MAX_EPS_IQ1_S,
 * GROUP_MAX_EPS_IQ1_M).
 */
@inline
const EPS_IQ1_S: f32 = 1e-12;
@inline
const EPS_IQ1_M: f32 = 1e-7;

/** Value of the digits 0, 1 and 2: -1, 0 and 1, plus or minus an eighth. */
@inline
function value_of(digit: u32, minus: bool): f32 {
  return <f32>(<i32>digit - 1) + (minus ? <f32>-0.125 : <f32>0.125);
}

/** u8[32]: indices of the elements in ascending order. */
const ORDER = memory.data(32, 16);
/**
 * f32[2][36]: prefix sums over the sorted elements, of weight * x and of the weights. iq1_m has
 * separate sums for the elements of the lower half and of the upper half.
 */
const SUM_X = memory.data(4 * 2 * 36, 16);
const SUM_W = memory.data(4 * 2 * 36, 16);
@inline
const UPPER: usize = 4 * 36;
/** f32[4] each: sums of four candidate splits, twice. */
const QX = memory.data(2 * 16, 16);
const Q2 = memory.data(2 * 16, 16);
/** u16[4]: the entries of a sub-block. */
const INDEX = memory.data(2 * 4, 8);
/**
 * u8[16]. iq1_s: 1 if a sub-block's eighth is subtracted. iq1_m: 2 if that of its lower half is
 * subtracted, plus 1 if that of the upper half is.
 */
const SHIFTS = memory.data(16, 16);

/**
 * Sorts the n elements at x into ORDER. Equal elements keep their order, as in glibc's qsort; the
 * digits depend on it.
 */
function sort(x: usize, n: usize): void {
  for (let i: usize = 0; i < n; i++) {
    const v = load<f32>(x + 4 * i);
    let j = i;
    for (; j > 0; j--) {
      const before = load<u8>(ORDER + j - 1);
      if (!(v < load<f32>(x + 4 * <usize>before))) break;
      store<u8>(ORDER + j, before);
    }
    store<u8>(ORDER + j, <u8>i);
  }
}

/**
 * Stores the digits to L: 0 for the sorted elements before i1, 1 before i2, then 2; reversed if the
 * scale is negative.
 */
function store_digits(n: usize, i1: usize, i2: usize, negative: bool): void {
  for (let j: usize = 0; j < n; j++) {
    const digit = j < i1 ? 0 : j < i2 ? 1 : 2;
    store<u8>(L + <usize>load<u8>(ORDER + j), <u8>(negative ? 2 - digit : digit));
  }
}

/**
 * Chooses the entry of group k: that of its own digits, or the nearest one, which sets off_grid.
 */
let off_grid: bool = false;
function choose(grid: Grid, x: usize, k: usize, scale: f32, minus: bool): u32 {
  const code = code8(load<u64>(L + 8 * k));
  if (load<i32>(grid.map + 4 * <usize>code) < 0) off_grid = true;
  return nearest8(grid, code, x + 32 * k, WEIGHT + 32 * k, scale, value_of(0, minus), value_of(1, minus), value_of(2, minus));
}

/** Sums over the chosen entries: add_entry adds the elements of one entry, one by one. */
let sum_qx: f32 = 0;
let sum_q2: f32 = 0;
function add_entry(grid: Grid, x: usize, k: usize, index: u32, minus: bool, times: f32): void {
  const digits = load<u64>(grid.entries + 8 * <usize>index);
  for (let j: u32 = 0; j < 8; j++) {
    const p = (k << 5) + (<usize>j << 2);
    const w = load<f32>(WEIGHT + p);
    const q = value_of(<u32>(digits >> (8 * j)) & 255, minus) * times;
    sum_qx += w * q * load<f32>(x + p);
    sum_q2 += w * q * q;
  }
}

/** The best split so far: score and scale (f32), its two borders, and the signs of its eighths. */
let best: f32 = 0;
let scale: f32 = 0;
let part1: i32 = -1;
let part2: usize = 0;
let shift: u32 = 0;

/** Takes candidate `lane` of QX and Q2 if it beats the best so far. */
@inline
function consider(lane: usize, i1: usize, i2: usize, which: u32): void {
  const qx = load<f32>(QX + 4 * lane);
  const q2 = load<f32>(Q2 + 4 * lane);
  if (!(q2 > 0 && qx * qx > best * q2)) return;
  scale = qx / q2;
  best = scale * qx;
  part1 = <i32>i1;
  part2 = i2;
  shift = which;
}

/**
 * True if any of four candidates may beat the best. Since the best only improves, the others need
 * no further look.
 */
@inline
function promises(qx: v128, q2: v128): bool {
  const better = f32x4.gt(f32x4.mul(qx, qx), f32x4.mul(f32x4.splat(best), q2));
  return v128.any_true(v128.and(f32x4.gt(q2, f32x4.splat(0)), better));
}

/**
 * Adds up weight * x (or the weights) of the three parts, each times the value of its digit; with
 * `squares` times the value's square.
 */
@inline
function parted(before: f32, at: v128, all: f32, minus: bool, squares: bool): v128 {
  let a = before * value_of(0, minus);
  if (squares) a *= value_of(0, minus);
  const v1 = f32x4.splat(value_of(1, minus));
  const v2 = f32x4.splat(value_of(2, minus));
  let b = f32x4.mul(f32x4.sub(at, f32x4.splat(before)), v1);
  let c = f32x4.mul(f32x4.sub(f32x4.splat(all), at), v2);
  if (squares) {
    b = f32x4.mul(b, v1);
    c = f32x4.mul(c, v2);
  }
  return f32x4.add(f32x4.add(f32x4.splat(a), b), c);
}

function part_iq1_s(x: usize): void {
  sort(x, 32);
  let sum_x: f32 = 0;
  let sum_w: f32 = 0;
  store<f32>(SUM_X, 0);
  store<f32>(SUM_W, 0);
  for (let j: usize = 0; j < 32; j++) {
    const i = <usize>load<u8>(ORDER + j) << 2;
    const w = load<f32>(WEIGHT + i);
    sum_x += w * load<f32>(x + i);
    sum_w += w;
    store<f32>(SUM_X + 4 * j, sum_x, 4);
    store<f32>(SUM_W + 4 * j, sum_w, 4);
  }
  best = -f32.MAX_VALUE;
  part1 = -1;
  for (let i1: usize = 0; i1 <= 32; i1++) {
    const x1 = load<f32>(SUM_X + 4 * i1);
    const w1 = load<f32>(SUM_W + 4 * i1);
    // Four positions of the second border at a time.
    for (let i2 = i1; i2 <= 32; i2 += 4) {
      const x2 = v128.load(SUM_X + 4 * i2);
      const w2 = v128.load(SUM_W + 4 * i2);
      const qx_p = parted(x1, x2, sum_x, false, false);
      const q2_p = parted(w1, w2, sum_w, false, true);
      const qx_m = parted(x1, x2, sum_x, true, false);
      const q2_m = parted(w1, w2, sum_w, true, true);
      if (!promises(qx_p, q2_p) && !promises(qx_m, q2_m)) continue;
      v128.store(QX, qx_p);
      v128.store(Q2, q2_p);
      v128.store(QX, qx_m, 16);
      v128.store(Q2, q2_m, 16);
      for (let lane: usize = 0; lane < 4 && i2 + lane <= 32; lane++) {
        consider(lane, i1, i2 + lane, 0);
        consider(lane + 4, i1, i2 + lane, 1);
      }
    }
  }
}

export function quantize_iq1_s(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 50);
  const sigma2: f32 = (<f32>2 * sum_squares(x, 256)) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 8; ib++, x += 128, imatrix += 128) {
    store<f32>(SCALES + 4 * ib, 0);
    store<u8>(SHIFTS + ib, 0);
    weigh(WEIGHT, x, imatrix, sigma2, 32);
    if (largest(x, 32, true) < EPS_IQ1_S) continue;
    part_iq1_s(x);
    if (part1 < 0) continue;
    const negative = scale < 0;
    store_digits(32, part1, part2, negative);
    const minus = (shift == 1) != negative;
    let fitted = abs(scale);
    off_grid = false;
    for (let k: usize = 0; k < 4; k++) store<u16>(INDEX + 2 * k, <u16>choose(grid, x, k, fitted, minus));
    if (failed) return false;
    if (off_grid) {
      sum_qx = sum_q2 = 0;
      for (let k: usize = 0; k < 4; k++) add_entry(grid, x, k, load<u16>(INDEX + 2 * k), minus, 1);
      if (sum_qx > 0 && sum_q2 > 0) fitted = sum_qx / sum_q2;
    }
    if (!(fitted >= 0)) {
      fail();
      return false;
    }
    let high: u32 = 0;
    for (let k: usize = 0; k < 4; k++) {
      const index = <u32>load<u16>(INDEX + 2 * k);
      store<u8>(y + 4 * ib + k, <u8>index, 2);
      high |= (index >> 8) << (3 * <u32>k);
    }
    store<u16>(y + 2 * ib, <u16>high, 34);
    store<f32>(SCALES + 4 * ib, fitted);
    store<u8>(SHIFTS + ib, minus ? 1 : 0);
    max_scale = larger(max_scale, fitted);
  }
  if (max_scale == 0) return true;
  const d = max_scale / 15;
  store<u16>(y, <u16>f32_to_f16(d * <f32>1.125));
  const id: f32 = 1 / d;
  for (let ib: usize = 0; ib < 8; ib++) {
    const code = scale_code(id, load<f32>(SCALES + 4 * ib), 7) | (<u32>load<u8>(SHIFTS + ib) << 3);
    store<u16>(y + 2 * ib, <u16>(<u32>load<u16>(y + 2 * ib, 34) | (code << 12)), 34);
  }
  return true;
}

/**
 * Largest values, 1.125 or 0.875, for the four choices of signs [++, +-, -+, --] of the lower and
 * the upper half: one half's part. Used for the sums of the four choices.
 */
@inline
function largest_values(upper: bool): v128 {
  return upper ? f32x4(1.125, 0.875, 1.125, 0.875) : f32x4(1.125, 1.125, 0.875, 0.875);
}

/**
 * Difference of the squares of the first and second value; second_steps: of the second and third.
 */
@inline
function first_steps(upper: bool): v128 {
  return upper ? f32x4(0.75, 1.25, 0.75, 1.25) : f32x4(0.75, 0.75, 1.25, 1.25);
}
@inline
function second_steps(upper: bool): v128 {
  return upper ? f32x4(-1.25, -0.75, -1.25, -0.75) : f32x4(-1.25, -1.25, -0.75, -0.75);
}

@inline
function half_qx(i1: usize, i2: usize, upper: bool): v128 {
  const p = SUM_X + (upper ? UPPER : 0);
  const sum = load<f32>(p + 4 * i1) + load<f32>(p + 4 * i2);
  return f32x4.sub(f32x4.mul(v128.load32_splat(p, 64), largest_values(upper)), f32x4.splat(sum));
}

@inline
function half_q2(i1: usize, i2: usize, upper: bool): v128 {
  const p = SUM_W + (upper ? UPPER : 0);
  const v = largest_values(upper);
  const all = f32x4.mul(f32x4.mul(v128.load32_splat(p, 64), v), v);
  const first = f32x4.mul(v128.load32_splat(p + 4 * i1), first_steps(upper));
  return f32x4.add(f32x4.add(all, first), f32x4.mul(v128.load32_splat(p + 4 * i2), second_steps(upper)));
}

function part_iq1_m(x: usize): void {
  sort(x, 16);
  memory.fill(SUM_X, 0, 8 * 36);
  memory.fill(SUM_W, 0, 8 * 36);
  for (let j: usize = 0; j < 16; j++) {
    const i = <usize>load<u8>(ORDER + j);
    const w = load<f32>(WEIGHT + 4 * i);
    for (let half: usize = 0; half < 2; half++) {
      const p = UPPER * half + 4 * j;
      const here = i >> 3 == half;
      store<f32>(SUM_X + p, here ? load<f32>(SUM_X + p) + w * load<f32>(x + 4 * i) : load<f32>(SUM_X + p), 4);
      store<f32>(SUM_W + p, here ? load<f32>(SUM_W + p) + w : load<f32>(SUM_W + p), 4);
    }
  }
  best = -f32.MAX_VALUE;
  part1 = -1;
  for (let i1: usize = 0; i1 <= 16; i1++) {
    for (let i2 = i1; i2 <= 16; i2++) {
      const qx = f32x4.add(half_qx(i1, i2, false), half_qx(i1, i2, true));
      const q2 = f32x4.add(half_q2(i1, i2, false), half_q2(i1, i2, true));
      if (!promises(qx, q2)) continue;
      v128.store(QX, qx);
      v128.store(Q2, q2);
      for (let lane: u32 = 0; lane < 4; lane++) consider(lane, i1, i2, lane);
    }
  }
}

/** True if the eighth of half k of a sub-block is subtracted. */
@inline
function is_minus(shifts: u32, k: usize): bool {
  return k == 0 ? shifts >= 2 : (shifts & 1) == 1;
}

export function quantize_iq1_m(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 56);
  const sigma2: f32 = (<f32>2 * sum_squares(x, 256)) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 16; ib++) {
    const xb = x + 64 * ib;
    store<f32>(SCALES + 4 * ib, 0);
    store<u8>(SHIFTS + ib, 0);
    weigh(WEIGHT, xb, imatrix ? imatrix + 64 * ib : 0, sigma2, 16);
    if (largest(xb, 16, true) < EPS_IQ1_M) continue;
    part_iq1_m(xb);
    if (part1 < 0) continue;
    const negative = scale < 0;
    store_digits(16, part1, part2, negative);
    const shifts = negative ? 3 - shift : shift;
    let fitted = abs(scale);
    off_grid = false;
    const a = choose(grid, xb, 0, fitted, is_minus(shifts, 0));
    const b = choose(grid, xb, 1, fitted, is_minus(shifts, 1));
    if (failed) return false;
    if (off_grid) {
      sum_qx = sum_q2 = 0;
      add_entry(grid, xb, 0, a, is_minus(shifts, 0), 1);
      add_entry(grid, xb, 1, b, is_minus(shifts, 1), 1);
      if (sum_qx > 0 && sum_q2 > 0) fitted = sum_qx / sum_q2;
    }
    if (!(fitted >= 0)) {
      fail();
      return false;
    }
    store<u8>(y + 2 * ib, <u8>a);
    store<u8>(y + 2 * ib, <u8>b, 1);
    store<u8>(y + ib, <u8>((a >> 8) | ((b >> 8) << 4)), 32);
    store<f32>(SCALES + 4 * ib, fitted);
    store<u8>(SHIFTS + ib, <u8>shifts);
    max_scale = larger(max_scale, fitted);
  }
  if (max_scale == 0) return true;
  let d = max_scale / 15;
  const id: f32 = 1 / d;
  sum_qx = sum_q2 = 0;
  // Sub-blocks of zeros count with entry 0, as in ggml.
  for (let ib: usize = 0; ib < 16; ib++) {
    const xb = x + 64 * ib;
    const shifts = <u32>load<u8>(SHIFTS + ib);
    const code = scale_code(id, load<f32>(SCALES + 4 * ib), 7);
    const scales = y + 2 * (ib >> 2);
    const shifted = code << (3 * (<u32>ib & 3));
    store<u16>(scales, load<u16>(scales, 48) | <u16>shifted, 48);
    const high = <u32>load<u8>(y + ib, 32);
    weigh(WEIGHT, xb, imatrix ? imatrix + 64 * ib : 0, sigma2, 16);
    const times = <f32>((code << 1) | 1);
    add_entry(grid, xb, 0, <u32>load<u8>(y + 2 * ib) | ((high << 8) & 0x700), is_minus(shifts, 0), times);
    add_entry(grid, xb, 1, <u32>load<u8>(y + 2 * ib, 1) | ((high << 4) & 0x700), is_minus(shifts, 1), times);
    store<u8>(y + ib, <u8>(high | (is_minus(shifts, 0) ? 0x08 : 0) | (is_minus(shifts, 1) ? 0x80 : 0)), 32);
  }
  if (sum_q2 > 0) d = sum_qx / sum_q2;
  const bits = f32_to_f16(d * <f32>1.1125);
  for (let i: usize = 0; i < 4; i++) {
    const nibble = (bits >> (4 * <u32>i)) & 15;
    store<u16>(y + 2 * i, load<u16>(y + 2 * i, 48) | <u16>(nibble << 12), 48);
  }
  return true;
}
