/**
 * iq4_nl: 32 elements in 18 bytes, x = d * KVALUES[q]: sixteen levels, denser around zero.
 *
 *   0        2                                            18
 *   | d: f16 | qs: 16 bytes, low nibble j, high j + 16    |
 */
import { dot_i8, f16_to_f32, f32_to_f16, hsum_f32, lookup16, madd, splat_u6 } from '../../simd';
import { EPS, clamp, sum_squares, weigh } from './search_qx';
import { L, LANES, SCALE, WEIGHT } from './work';
import { low_bytes, nearest_int, store_i8_scaled } from './words';

@inline
const QK: i32 = 32;
@inline
const BYTES: usize = 18;

/** The sixteen levels, ascending. */
@inline
export function kvalues_iq4nl(): v128 {
  return i8x16(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

const LEVELS = memory.data<f32>([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], 16);

export function dequantize_row_iq4_nl(x: usize, y: usize, k: i32): void {
  const table = kvalues_iq4nl();
  const mask = i8x16.splat(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 128) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x)));
    const q = v128.load(x, 2);
    store_i8_scaled(y, lookup16(table, v128.and(q, mask)), d);
    store_i8_scaled(y + 64, lookup16(table, v128.and(i16x8.shr_u(q, 4), mask)), d);
  }
}

/**
 * All bits set for those of four f32 that lie below the middle between level j / 4 and the next.
 * x2: twice the four numbers, to compare with the sum of both levels. Ties go up. A NaN compares
 * false and so gets the highest level.
 */
@inline
function below_middle(x2: v128, j: usize): v128 {
  return f32x4.lt(x2, f32x4.add(v128.load32_splat(LEVELS + j), v128.load32_splat(LEVELS + j, 4)));
}

/** The level nearest to each of four f32, as f32. */
@inline
function nearest_level(x: v128): v128 {
  const x2 = f32x4.add(x, x);
  let level = f32x4.splat(113);
  for (let j: usize = 0; j < 60; j += 4) {
    const step = f32x4.sub(v128.load32_splat(LEVELS + j), v128.load32_splat(LEVELS + j, 4));
    level = f32x4.add(level, v128.and(below_middle(x2, j), step));
  }
  return level;
}

/** Index of the level nearest to each of four f32, as i32. */
function nearest_index(x: v128): v128 {
  const x2 = f32x4.add(x, x);
  let index = i32x4.splat(15);
  for (let j: usize = 0; j < 60; j += 4) index = i32x4.add(index, below_middle(x2, j));
  return index;
}

function store_codes(x: usize, codes: usize, id: f32): void {
  const d = f32x4.splat(id);
  for (const end = codes + 32; codes < end; codes += 16, x += 64) {
    v128.store(
      codes,
      low_bytes(
        nearest_index(f32x4.mul(d, v128.load(x))),
        nearest_index(f32x4.mul(d, v128.load(x, 16))),
        nearest_index(f32x4.mul(d, v128.load(x, 32))),
        nearest_index(f32x4.mul(d, v128.load(x, 48))),
      ),
    );
  }
}

/**
 * Scale of 32 elements with the least weighted error. Candidates are `max / -127` and `max / (-127
 * + t)`, t = -ntry..ntry; with ntry <= 0 there is only the first, which maps the largest element to
 * -127 instead of 127. Stores the codes of the first candidate to `codes`.
 */
function search_scale(x: usize, w: usize, codes: usize, ntry: i32, work: usize): f32 {
  let amax: f32 = 0;
  let max: f32 = 0;
  for (let i: usize = 0; i < 128; i += 4) {
    const v = load<f32>(x + i);
    if (abs(v) > amax) {
      amax = abs(v);
      max = v;
    }
  }
  if (amax < EPS) {
    memory.fill(codes, 0, 32);
    return 0;
  }
  const d0: f32 = ntry > 0 ? -max / -127 : max / -127;
  const id0: f32 = 1 / d0;
  store_codes(x, codes, id0);
  let d: f32 = 0;
  let best: f32 = 0;
  const lanes = work + LANES;
  const last = ntry > 0 ? 2 * ntry : -1; // candidate -1 is the first, candidates 0..2 * ntry are the t
  for (let step = -1; step <= last; step += 4) {
    const t = f32x4.convert_i32x4_s(i32x4.add(i32x4.splat(step - ntry), i32x4(0, 1, 2, 3)));
    let id = f32x4.div(f32x4.add(t, f32x4.splat(-127)), f32x4.splat(max));
    if (step == -1) id = f32x4.replace_lane(id, 0, id0);
    let sumqx = f32x4.splat(0);
    let sumq2 = f32x4.splat(0);
    for (let i: usize = 0; i < 128; i += 4) {
      const v = v128.load32_splat(x + i);
      const q = nearest_level(f32x4.mul(id, v));
      const wq = f32x4.mul(v128.load32_splat(w + i), q);
      sumqx = f32x4.add(sumqx, f32x4.mul(wq, v));
      sumq2 = f32x4.add(sumq2, f32x4.mul(wq, q));
    }
    v128.store(lanes, sumqx);
    v128.store(lanes, sumq2, 16);
    for (let lane = 0; lane < 4 && step + lane <= last; lane++) {
      const qx = load<f32>(lanes + (<usize>lane << 2));
      const q2 = load<f32>(lanes + (<usize>lane << 2), 16);
      if (step + lane == -1) {
        d = q2 > 0 ? qx / q2 : 0;
        best = d * qx;
      } else if (q2 > 0 && qx * qx > best * q2) {
        d = qx / q2;
        best = d * qx;
      }
    }
  }
  return d;
}

@inline
function pack(y: usize, codes: usize): void {
  v128.store(y, v128.or(v128.load(codes), i8x16.shl(v128.load(codes, 16), 4)));
}

/**
 * Quantises k elements. ntry = -1 is ggml's quantize_row_iq4_nl_ref, ntry = 7 its quantize_iq4_nl
 * with or without an imatrix.
 */
function quantize(x: usize, y: usize, k: i32, imatrix: usize, ntry: i32, work: usize): void {
  for (const end = x + (<usize>k << 2); x < end; x += 128, y += BYTES) {
    weigh(work + WEIGHT, x, imatrix, imatrix ? sum_squares(x, 32) * <f32>0.0625 : 0, 32);
    const d = search_scale(x, work + WEIGHT, work + L, ntry, work);
    store<u16>(y, <u16>f32_to_f16(d));
    if (ntry > 0) store_codes(x, work + L, d != 0 ? 1 / d : 0);
    pack(y + 2, work + L);
    if (imatrix) imatrix += 128;
  }
}

export function quantize_row_iq4_nl(x: usize, y: usize, k: i32, work: usize): void {
  quantize(x, y, k, 0, -1, work);
}

export function quantize_imatrix_iq4_nl(x: usize, y: usize, k: i32, imatrix: usize, work: usize): void {
  quantize(x, y, k, imatrix, 7, work);
}

/** Quantises one block of iq4_xs to y (see iq4_xs.ts): eight scales, then codes. */
export function quantize_block_iq4_xs(x: usize, y: usize, imatrix: usize, work: usize): void {
  const sigma2: f32 = imatrix ? sum_squares(x, 256) * <f32>0.0078125 : 0;
  let amax: f32 = 0;
  let max: f32 = 0;
  for (let j: usize = 0; j < 8; j++) {
    weigh(work + WEIGHT, x + 128 * j, imatrix ? imatrix + 128 * j : 0, sigma2, 32);
    const scale = search_scale(x + 128 * j, work + WEIGHT, work + L, 7, work);
    store<f32>(work + SCALE + 4 * j, scale);
    if (abs(scale) > amax) {
      amax = abs(scale);
      max = scale;
    }
  }
  const d: f32 = -max / 32;
  const id: f32 = d != 0 ? 1 / d : 0;
  let low: u32 = 0;
  let high: u32 = 0;
  for (let j: usize = 0; j < 8; j++) {
    const l = clamp(nearest_int(id * load<f32>(work + SCALE + 4 * j)), -32, 31);
    const dl = d * <f32>l;
    store_codes(x + 128 * j, work + L, dl != 0 ? 1 / dl : 0);
    pack(y + 16 * j + 8, work + L);
    low |= (<u32>(l + 32) & 15) << (4 * <u32>j);
    high |= (<u32>(l + 32) >> 4) << (2 * <u32>j);
  }
  store<u16>(y, <u16>f32_to_f16(d));
  store<u16>(y, <u16>high, 2);
  store<u32>(y, low, 4);
}

export function vec_dot_iq4_nl_q8_0(n: i32, x: usize, y: usize): f32 {
  const table = kvalues_iq4nl();
  const mask = splat_u6(15);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n / QK) * BYTES; x < end; x += BYTES, y += 34) {
    const d = f16_to_f32(load<u16>(x)) * f16_to_f32(load<u16>(y));
    const q = v128.load(x, 2);
    const s = i32x4.add(
      dot_i8(lookup16(table, v128.and(q, mask)), v128.load(y, 2)),
      dot_i8(lookup16(table, v128.and(i16x8.shr_u(q, 4), mask)), v128.load(y, 18)),
    );
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
