/**
 * Quantisers of iq3_xxs and iq3_s; ../type/block/ has pictures of their bytes. They return false if
 * ggml would abort (`failed` in work.ts).
 *
 * Source: ggml-quants.c, quantize_row_iq3_xxs_impl, quantize_row_iq3_s_impl.
 */
import { f32_to_f16 } from '../simd';
import { sum_squares } from '../type/block/search_qx';
import { ALL_IF_ANY, OFF_GRID, fit4 } from './fit';
import { Grid, code4 } from './grid';
import { L, SCALES, X, even_out, failed, larger, largest, scale_code, take_sub_block } from './work';

/**
 * If all elements of a sub-block of iq3_xxs are below this, they become zero
 * (GROUP_MAX_EPS_IQ3_XXS).
 */
@inline
const EPS_IQ3_XXS: f32 = 1e-8;

/** Index of the entry with the digits of group k in L. */
@inline
function entry(grid: Grid, k: usize): u32 {
  return load<i32>(grid.map + 4 * <usize>code4(load<u32>(L + 4 * k)));
}

export function quantize_iq3_xxs(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 98);
  const sigma2: f32 = (<f32>2 * sum_squares(x, 256)) / 256;
  let max_scale: f32 = 0;
  for (let ib: usize = 0; ib < 8; ib++, x += 128) {
    store<f32>(SCALES + 4 * ib, 0);
    let signs = even_out(take_sub_block(x, 32, imatrix, sigma2, 0), x, 32);
    if (imatrix) imatrix += 128;
    const max = largest(X, 32, false);
    if (max < EPS_IQ3_XXS) continue;
    memory.fill(L, 0, 32);
    let scale = fit4(grid, 32, max, 15, max / 15, 255, OFF_GRID);
    if (failed) return false;
    if (scale < 0) {
      scale = -scale;
      signs = ~signs & 0x0fffffff;
    }
    for (let k: usize = 0; k < 8; k++) store<u8>(y + 8 * ib + k, <u8>entry(grid, k), 2);
    store<u32>(y + 4 * ib, signs, 66);
    store<f32>(SCALES + 4 * ib, scale);
    max_scale = larger(max_scale, scale);
  }
  if (max_scale == 0) {
    memory.fill(y, 0, 98);
    return true;
  }
  const d = max_scale / 31;
  store<u16>(y, <u16>f32_to_f16(d * <f32>1.0125));
  const id: f32 = 1 / d;
  for (let p = y + 66, scale = SCALES; p != y + 98; p += 4, scale += 4)
    store<u32>(p, load<u32>(p) | (scale_code(id, load<f32>(scale), 15) << 28));
  return true;
}

export function quantize_iq3_s(grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  memory.fill(y, 0, 110);
  const sigma2: f32 = (<f32>2 * sum_squares(x, 256)) / 256;
  let max_scale: f32 = 0;
  // Indices and signs are appended, while high bits go to the sub-block's own place. A sub-block of
  // zeros appends nothing, so the indices and signs of later sub-blocks move one place down. ggml's
  // files have the same.
  let written: usize = 0;
  for (let ib: usize = 0; ib < 8; ib++, x += 128) {
    store<f32>(SCALES + 4 * ib, 0);
    let signs = take_sub_block(x, 32, imatrix, sigma2, 0);
    if (imatrix) imatrix += 128;
    const max = largest(X, 32, false);
    if (max == 0) continue;
    memory.fill(L, 0, 32);
    let scale = fit4(grid, 32, max, 9, max / 15, 0, ALL_IF_ANY);
    if (failed) return false;
    if (scale < 0) {
      scale = -scale;
      signs = ~signs;
    }
    let high: u32 = 0;
    for (let k: usize = 0; k < 8; k++) {
      const index = entry(grid, k);
      store<u8>(y + 8 * written + k, <u8>index, 2);
      high |= (index >> 8) << <u32>k;
    }
    store<u8>(y + ib, <u8>high, 66);
    store<u32>(y + 4 * written, signs, 74);
    written++;
    store<f32>(SCALES + 4 * ib, scale);
    max_scale = larger(max_scale, scale);
  }
  if (max_scale == 0) return true;
  const d = max_scale / 31;
  store<u16>(y, <u16>f32_to_f16(d * <f32>1.033));
  const id: f32 = 1 / d;
  for (let ib: usize = 0; ib < 4; ib++) {
    const low = scale_code(id, load<f32>(SCALES + 8 * ib), 15);
    store<u8>(y + ib, <u8>(low | (scale_code(id, load<f32>(SCALES + 8 * ib, 4), 15) << 4)), 106);
  }
  return true;
}
