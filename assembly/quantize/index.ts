/**
 * The module quantize.wasm: writes what llama-quantize writes, for every type, with importance
 * weights, and including IQ1, IQ2 and IQ3, which search grids. It is large and only used for
 * quantising a model, so it is not part of the six builds. An instance has a memory of its own,
 * which it may grow. src/wasm/abi.ts has the types of its exports.
 */
import { WORK_BYTES } from '../type/block/work';
import { IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, blck_size, type_size } from '../type/ids';
import { quantize_imatrix_row } from '../type/traits';
import { Grid, grid_of, in_grid } from './grid';
import { quantize_iq1_m, quantize_iq1_s } from './iq1';
import { quantize_iq2_s, quantize_iq2_xs, quantize_iq2_xxs } from './iq2';
import { quantize_iq3_s, quantize_iq3_xxs } from './iq3';
import { begin } from './work';

export { prepare } from './grid';

/** Work area of the quantisers that search for scales. */
const WORK = memory.data(<i32>WORK_BYTES, 16);

function quantize_block(type: u32, grid: Grid, x: usize, y: usize, imatrix: usize): bool {
  // prettier-ignore
  switch (type) {
    case IQ2_XXS: return quantize_iq2_xxs(grid, x, y, imatrix);
    case IQ2_XS: return quantize_iq2_xs(grid, x, y, imatrix);
    case IQ2_S: return quantize_iq2_s(grid, x, y, imatrix);
    case IQ1_S: return quantize_iq1_s(grid, x, y, imatrix);
    case IQ1_M: return quantize_iq1_m(grid, x, y, imatrix);
    case IQ3_XXS: return quantize_iq3_xxs(grid, x, y, imatrix);
    case IQ3_S: return quantize_iq3_s(grid, x, y, imatrix);
    default: unreachable();
  }
  return false;
}

/**
 * ggml_quantize_chunk: converts nrows rows of n_per_row f32 at src to block data at dst, as
 * llama-quantize writes it. Callers must have called prepare(type).
 *
 * `imatrix`: n_per_row weights, the same for every row, or 0 (not allowed for iq2_xxs, iq2_xs and
 * iq1_s). Returns the number of rows quantised. It is less than nrows if ggml would abort, because
 * the numbers or weights of the next row are too large for sums in f32.
 */
export function quantize_chunk(type: u32, src: usize, dst: usize, nrows: i32, n_per_row: i32, imatrix: usize): i32 {
  if (!in_grid(type)) {
    const row_size = <usize>(n_per_row / blck_size(type)) * type_size(type);
    for (let row = 0; row < nrows; row++, src += <usize>n_per_row << 2, dst += row_size)
      quantize_imatrix_row(type, src, dst, n_per_row, imatrix, WORK);
    return nrows;
  }
  const grid = grid_of(type);
  const bytes = type_size(type);
  begin();
  for (let row = 0; row < nrows; row++) {
    let weights = imatrix;
    for (const end = src + (<usize>n_per_row << 2); src < end; src += 1024, dst += bytes) {
      if (!quantize_block(type, grid, src, dst, weights)) return row;
      if (imatrix) weights += 1024;
    }
  }
  return nrows;
}
