/**
 * Quantisers of iq2_xxs, iq2_xs and iq2_s; ../type/block/ has pictures of their bytes. They return
 * false if ggml would abort (`failed` in work.ts).
 *
 * Source: ggml-quants.c, quantize_row_iq2_xxs_impl, quantize_row_iq2_xs_impl,
 * quantize_row_iq2_s_impl.
 */
import { f32_to_f16 } from '../simd';
import { EPS, sum_squares } from '../type/block/search_qx';
import { make_qp_quants } from '../type/block/search_qkx';
import { ALL, OFF_GRID, fit8 } from './fit';
import { Grid, code8 } from './grid';
import { L, SCALES, WEIGHT, X, even_out, failed, larger, largest, scale_code, take_sub_block } from './work';

/**
 * If all elements of a sub-block of iq2_s are below this, they become zero (GROUP_MAX_EPS_IQ2_S).
 */
@inline
const EPS_IQ2_S: f32 = 1e-8;

/** Index of the entry with the digits of group k in L. */
@inline
function entry(grid: Grid, k: usize): u32 {
  return load<i32>(grid.map + 4 * <usize>code8(load<u64>(L + 8 * k)));
}

export function quantize_iq2_xxs(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 66);
  const sigma2 = sum_squares(x, 256) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 8; ib++, x += 128, imatrix += 128) {
    const q = y + 2 + 8 * ib;
    store<f32>(SCALES + 4 * ib, 0);
    let signs = even_out(take_sub_block(x, 32, imatrix, sigma2, 0), x, 32);
    if (largest(X, 32, false) < EPS) continue;
    let scale = make_qp_quants(32, 4, X, L, WEIGHT);
    const range = scale * 3;
    if (range <= 0) continue;
    scale = fit8(grid, 32, range, 6, scale, 0, ALL);
    if (failed) return false;
    if (scale < 0) {
      scale = -scale;
      signs = ~signs & 0x0fffffff;
    }
    for (let k: usize = 0; k < 4; k++) store<u8>(q + k, <u8>entry(grid, k));
    store<u32>(q, signs, 4);
    store<f32>(SCALES + 4 * ib, scale);
    max_scale = larger(max_scale, scale);
  }
  if (max_scale == 0) {
    memory.fill(y, 0, 66);
    return true;
  }
  const d = max_scale / 31;
  store<u16>(y, <u16>f32_to_f16(d));
  const id: f32 = 1 / d;
  for (let ib: usize = 0; ib < 8; ib++) {
    const q = y + 2 + 8 * ib;
    store<u32>(q, load<u32>(q, 4) | (scale_code(id, load<f32>(SCALES + 4 * ib), 15) << 28), 4);
  }
  return true;
}

/**
 * Finds the digits of sixteen elements, with candidates around their largest, and returns the
 * scale.
 */
function fit_half(grid: Grid, max: f32): f32 {
  memory.fill(L, 0, 16);
  return fit8(grid, 16, max, 9, max / 5, 3, OFF_GRID);
}

/** Stores the scales of sixteen sub-blocks as nibbles at `to`. */
function store_scales(to: usize, id: f32): void {
  for (let ib: usize = 0; ib < 8; ib++) {
    const low = scale_code(id, load<f32>(SCALES + 8 * ib), 15);
    store<u8>(to + ib, <u8>(low | (scale_code(id, load<f32>(SCALES + 8 * ib, 4), 15) << 4)));
  }
}

export function quantize_iq2_xs(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 74);
  const sigma2 = sum_squares(x, 256) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 16; ib++, x += 64, imatrix += 64) {
    store<f32>(SCALES + 4 * ib, 0);
    let signs = even_out(take_sub_block(x, 16, imatrix, sigma2, 0), x, 16);
    const max = largest(X, 16, false);
    if (max < EPS) continue;
    let scale = fit_half(grid, max);
    if (failed) return false;
    if (scale < 0) {
      scale = -scale;
      signs = ~signs;
    }
    store<u16>(y + 4 * ib, <u16>(entry(grid, 0) | ((signs & 127) << 9)), 2);
    store<u16>(y + 4 * ib, <u16>(entry(grid, 1) | (((signs >> 7) & 127) << 9)), 4);
    store<f32>(SCALES + 4 * ib, scale);
    max_scale = larger(max_scale, scale);
  }
  if (max_scale == 0) {
    memory.fill(y, 0, 74);
    return true;
  }
  const d = max_scale / 31;
  store<u16>(y, <u16>f32_to_f16(d));
  store_scales(y + 66, 1 / d);
  return true;
}

export function quantize_iq2_s(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 82);
  const sigma2: f32 = (<f32>2 * sum_squares(x, 256)) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 16; ib++, x += 64) {
    store<f32>(SCALES + 4 * ib, 0);
    let signs = take_sub_block(x, 16, imatrix, sigma2, <f32>0.25 * sigma2);
    if (imatrix) imatrix += 64;
    const max = largest(X, 16, false);
    if (max < EPS_IQ2_S) continue;
    let scale = fit_half(grid, max);
    if (failed) return false;
    if (scale < 0) {
      scale = -scale;
      signs = ~signs;
    }
    const a = entry(grid, 0);
    const b = entry(grid, 1);
    store<u8>(y + 2 * ib, <u8>a, 2);
    store<u8>(y + 2 * ib, <u8>b, 3);
    store<u16>(y + 2 * ib, <u16>signs, 34);
    const high = ((a >> 8) | ((b >> 8) << 2)) << (ib & 1 ? 4 : 0);
    store<u8>(y + (ib >> 1), load<u8>(y + (ib >> 1), 66) | <u8>high, 66);
    store<f32>(SCALES + 4 * ib, scale);
    max_scale = larger(max_scale, scale);
  }
  if (max_scale == 0) return true;
  const d = max_scale / 31;
  store<u16>(y, <u16>f32_to_f16(d * <f32>0.9875));
  store_scales(y + 74, 1 / d);
  return true;
}
