/** Panels of f32, f16 and bf16 weights, unpacked to f32 (gemm_f32_8x4.ts). */
import { G0, G1, G2, G3 } from './format/group';

/** Weights of a row that are unpacked at a time: 16 KB for 16 rows. */
export const KC_F32: i32 = 256;
/** Bytes of a panel: 8 rows x KC_F32 f32. */
export const PANEL_F32: usize = <usize>KC_F32 << 5;

/**
 * Converts n weights of 16 packed rows at w to two panels: one of the first 8 rows and, PANEL_F32
 * bytes after it, one of the other 8.
 */
export function unpack_f32<F>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  for (const end = panel + (<usize>n << 5); panel != end; panel += 32) {
    v128.store(panel, f.load<G0>(w));
    v128.store(panel, f.load<G1>(w), 16);
    v128.store(panel + PANEL_F32, f.load<G2>(w));
    v128.store(panel + PANEL_F32, f.load<G3>(w), 16);
    w += f.bytes() << 4;
  }
}
