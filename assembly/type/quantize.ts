/**
 * Conversion of rows of activations from f32 to block data. (quantize.wasm makes the data of files,
 * see assembly/quantize/.)
 */
import { WORK_BYTES } from './block/work';
import { Q8_0, Q8_1, Q8_K, blck_size, type_size } from './ids';
import { quantize_row } from './traits';

/**
 * quantize_row for rows that an integer product reads. A block with a NaN or an Inf gets the scale
 * NaN, as in matmul/act.ts. ggml's own quantisers, whose bytes are in files, ignore a NaN, so the
 * product would be a finite, wrong number. (Activations beyond 8.3 million overflow q8_0's f16
 * scale, which becomes Inf as in ggml.)
 */
export function quantize_activations(type: u32, x: usize, y: usize, k: i32): void {
  quantize_row(type, x, y, k);
  if (type != Q8_0 && type != Q8_1 && type != Q8_K) return;
  const block = <usize>blck_size(type) << 2;
  const bytes = type_size(type);
  const infinity = i32x4.splat(0x7f800000);
  for (const row = x + (<usize>k << 2); x != row; y += bytes) {
    let odd = i32x4.splat(0);
    for (const end = x + block; x != end; x += 16) odd = v128.or(odd, i32x4.eq(v128.and(v128.load(x), infinity), infinity));
    if (!v128.any_true(odd)) continue;
    if (type == Q8_K) store<f32>(y, NaN);
    else store<u16>(y, 0x7e00);
    if (type == Q8_1) store<u16>(y, 0x7e00, 2); // also of d * sum
  }
}

/** Bytes of the work area that the searches of quantize_row need for each thread. */
export function quantize_work_size(): usize {
  return WORK_BYTES;
}
