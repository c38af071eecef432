/**
 * Code shared by the quantisers of the IQ formats: buffers for a sub-block, which no other thread
 * sees, and the search for the nearest entry of a grid.
 */
import { weigh } from '../type/block/search_qx';
import { nearest_int } from '../type/block/words';
import { Grid } from './grid';

/**
 * f32[32]: magnitudes of the sub-block's elements. Some have a minus sign, to make the number of
 * signs even.
 */
export const X = memory.data(4 * 32, 16);
/** f32[32]: importance of the elements, and its square root. */
export const WEIGHT = memory.data(4 * 32, 16);
export const ROOT = memory.data(4 * 32, 16);
/** u8[32]: digit of each element in the chosen entries. */
export const L = memory.data(32, 16);
/** f32[16]: scale of each sub-block. */
export const SCALES = memory.data(4 * 16, 16);

/**
 * True if ggml would abort: no entry is near enough, because a number or an importance weight is
 * too large or NaN.
 */
export let failed = false;

export function begin(): void {
  failed = false;
}

export function fail(): void {
  failed = true;
}

/** C's MAX: a NaN on the left is replaced by the right operand, a NaN on the right is returned. */
@inline
export function larger(a: f32, b: f32): f32 {
  return a > b ? a : b;
}

/** The largest of n f32, or of their magnitudes. */
export function largest(x: usize, n: usize, magnitudes: bool): f32 {
  let max = magnitudes ? abs(load<f32>(x)) : load<f32>(x);
  for (let i: usize = 4; i < 4 * n; i += 4) max = larger(max, magnitudes ? abs(load<f32>(x + i)) : load<f32>(x + i));
  return max;
}

/**
 * Stores the magnitudes of n elements at x to X, and their importance to WEIGHT and ROOT; without
 * an imatrix the importance is x^2 + floor. Returns a bit for each minus sign.
 */
export function take_sub_block(x: usize, n: usize, imatrix: usize, sigma2: f32, floor: f32): u32 {
  const zero = f32x4.splat(0);
  let signs: u32 = 0;
  weigh(WEIGHT, x, imatrix, sigma2, <i32>n);
  for (let i: usize = 0; i < n; i += 4) {
    const v = v128.load(x + 4 * i);
    const positive = f32x4.ge(v, zero);
    v128.store(X + 4 * i, v128.bitselect(v, f32x4.neg(v), positive));
    signs |= (i32x4.bitmask(positive) ^ 15) << <u32>i;
    let w = v128.load(WEIGHT + 4 * i);
    if (!imatrix) w = f32x4.add(f32x4.splat(floor), w);
    v128.store(WEIGHT + 4 * i, w);
    v128.store(ROOT + 4 * i, f32x4.sqrt(w));
  }
  return signs;
}

/**
 * Makes the number of minus signs of each eight elements even, by giving the least important
 * element the wrong sign: in X and in the bits. Returns seven bits for each eight; the eighth
 * follows from them.
 */
export function even_out(signs: u32, x: usize, n: usize): u32 {
  let packed: u32 = 0;
  for (let k: u32 = 0; k < <u32>n >> 3; k++) {
    let s = (signs >> (8 * k)) & 255;
    if (popcnt(s) & 1) {
      let least: f32 = 0;
      let at: u32 = 0;
      for (let i: u32 = 0; i < 8; i++) {
        const p = <usize>(8 * k + i) << 2;
        const v = load<f32>(x + p);
        const cost = load<f32>(WEIGHT + p) * v * v;
        if (i > 0 && !(cost < least)) continue;
        least = cost;
        at = i;
      }
      const p = X + (<usize>(8 * k + at) << 2);
      store<f32>(p, -load<f32>(p));
      s ^= 1 << at;
    }
    packed |= (s & 127) << (7 * k);
  }
  return packed;
}

/** Code (0 to most) of a sub-block's scale, which stands for (2 * code + 1) / id. */
export function scale_code(id: f32, scale: f32, most: i32): u32 {
  return <u32>max(0, min(most, nearest_int(<f32>0.5 * (id * scale - 1))));
}

/** f32[levels][digits]: weight * (scale * level - x)^2, for each element and each level. */
const ERRORS = memory.data(4 * 32, 16);

@inline
function errors_of(level: f32, scale: f32, x: usize, weight: usize, at: usize): void {
  const away = f32x4.sub(f32x4.splat(scale * level), v128.load(x));
  v128.store(at, f32x4.mul(f32x4.mul(v128.load(weight), away), away));
}

@inline
function error_at(list: u64, i: u32, digits: u32): f32 {
  return load<f32>(ERRORS + 4 * <usize>((<u32>(list >> (8 * i)) & 255) * digits + i));
}

/**
 * Index of the nearest of the neighbours in `list`. Errors are summed in the order of the elements,
 * and the first of equal ones wins.
 */
@inline
function nearest_of(grid: Grid, list: usize, eight: bool): u32 {
  const digits: u32 = eight ? 8 : 4;
  let best: f32 = f32.MAX_VALUE;
  let found: i32 = -1;
  for (const end = list + 2 * <usize>load<u16>(list); list != end;) {
    list += 2;
    const index = <usize>load<u16>(list);
    const entry = eight ? load<u64>(grid.entries + 8 * index) : <u64>load<u32>(grid.entries + 4 * index);
    let sum = error_at(entry, 0, digits);
    for (let i: u32 = 1; i < digits; i++) sum += error_at(entry, i, digits);
    if (sum < best) {
      best = sum;
      found = <i32>index;
    }
  }
  if (found < 0) {
    fail();
    return 0;
  }
  return found;
}

/**
 * Index of the entry with these eight digits; if no entry has them, of the best of the neighbours.
 * An element stands for scale * (a, b, c)[digit].
 */
export function nearest8(grid: Grid, code: u32, x: usize, weight: usize, scale: f32, a: f32, b: f32, c: f32): u32 {
  const index = load<i32>(grid.map + 4 * <usize>code);
  if (index >= 0) return index;
  for (let half: usize = 0; half < 32; half += 16) {
    errors_of(a, scale, x + half, weight + half, ERRORS + half);
    errors_of(b, scale, x + half, weight + half, ERRORS + 32 + half);
    errors_of(c, scale, x + half, weight + half, ERRORS + 64 + half);
  }
  return nearest_of(grid, <usize>-index, true);
}

/** As nearest8, for four digits that stand for scale * (2 * digit + 1). */
export function nearest4(grid: Grid, code: u32, x: usize, weight: usize, scale: f32): u32 {
  const index = load<i32>(grid.map + 4 * <usize>code);
  if (index >= 0) return index;
  for (let digit: usize = 0; digit < 8; digit++) errors_of(<f32>((digit << 1) | 1), scale, x, weight, ERRORS + 16 * digit);
  return nearest_of(grid, <usize>-index, false);
}
