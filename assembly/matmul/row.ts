/**
 * A row of packed weights as f32 (get_rows of a tied token_embd). It is read from the GEMM's panel
 * (panel.ts), whose layout is nearly the same for all formats, so one function serves all of them;
 * one for each was 10 KB of every build. All 16 rows of a row block are unpacked for it, which
 * takes a few microseconds a token.
 */
import { HAS_RELAXED_DOT } from '../simd';
import { panel_centre, panel_minima, panel_runs, panel_scales, panel_signed, unpack } from './by_type';
import { PAIR_SUMS } from './dot';
import { EVEN_ODD, I16_CODES, SIGNED_CODES } from './dot_signed';
import { ROWS } from './format/group';
import { KC_F32, PANEL_F32 } from './panel_f32';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';
import { blck_size, type_size } from '../type/ids';

/**
 * Unpacks row `row` of the packed tensor at w, of a float type, to ne00 f32 at y. panel: scratch of
 * two PANEL_F32.
 */
export function row_of_floats(type: u32, w: usize, ne00: i32, row: i32, y: usize, panel: usize): void {
  const number = <usize>type_size(type);
  w += <usize>(row / ROWS) * ((<usize>ne00 * number) << 4);
  const in_panel = panel + ((row & 8) != 0 ? PANEL_F32 : 0) + <usize>((row & 7) << 2);
  for (let k = 0; k < ne00; k += KC_F32, w += (<usize>KC_F32 * number) << 4) {
    const n = min(KC_F32, ne00 - k);
    unpack(type, w, n, panel);
    for (let p = in_panel, end = in_panel + (<usize>n << 5); p < end; p += 32, y += 4) store<f32>(y, load<f32>(p));
  }
}

/**
 * Unpacks row `row` of the packed tensor at w, of a type in blocks, to ne00 f32 at y, with the bits
 * of dequantize_row. panel: scratch of gemm_scratch() bytes.
 */
export function row_of_blocks(type: u32, w: usize, ne00: i32, row: i32, y: usize, panel: usize): void {
  const block = blck_size(type);
  const eight_bits = panel_signed(type) != 0;
  const few_bits = panel_runs(type) != 0;
  const block_subs = few_bits ? 2 : <i32>(block >> 5);
  const runs = few_bits ? <i32>(block >> 6) : 1;
  const scales = panel_scales(type);
  const minima = panel_minima(type);
  const taken_off = f32x4.splat(<f32>panel_centre(type));
  const codes: usize = eight_bits ? SIGNED_CODES : CODES;
  const half: usize = codes >> 1;
  const second: usize = scales > 1 ? half + 32 : half;
  const sub_bytes = codes + (scales == 0 ? 0 : scales == 1 ? 32 : 64);
  const minima_bytes: usize = minima < 2 ? 0 : minima == 2 ? 128 : 256;
  const factor_bytes: usize = scales == 3 ? 0 : minima == 0 ? 32 : 64;
  const bytes = <usize>type_size(type) * ROWS;
  let blocks = <i32>(<u32>ne00 / block);
  // Address of the row's first word in the panel of its 8 rows.
  const in_panel = panel + ((row & 8) != 0 ? PANEL() : 0) + <usize>((row & 7) << 2);
  w += <usize>(row / ROWS) * blocks * bytes;
  for (; blocks > 0; blocks--, w += bytes) {
    unpack(type, w, 1, panel);
    let p = in_panel;
    for (let run = 0; run < runs; run++) {
      const behind = p + <usize>block_subs * sub_bytes;
      const d: f32 = scales == 3 ? 1 : load<f32>(behind + minima_bytes);
      const dmin = minima == 0 ? <f32>-0.0 : load<f32>(behind + minima_bytes, 32);
      for (let i = 0; i < 2 * block_subs; i++, y += 64) {
        const q = (i & 1) != 0 ? p + second : p;
        const scale: f32 = scales == 0 ? 1 : scale_at(q + (scales > 1 || (i & 1) != 0 ? half : codes), scales == 3);
        // Two integers side by side: of two sub-blocks, or of both halves of one.
        const m =
          minima < 2 ? <f32>1 : <f32>load<i16>(behind + (minima == 2 ? ((i >> 2) << 5) | (i & 2) : ((i >> 1) << 5) | ((i & 1) << 1)));
        const x = f32x4.splat(d * scale);
        const z = f32x4.splat(minima == 0 ? dmin : dmin * m);
        for (let t: usize = 0; t < 4; t++)
          v128.store(y + (t << 4), f32x4.add(f32x4.mul(f32x4.sub(quad(q, t, eight_bits), taken_off), x), z));
        if ((i & 1) != 0) p += sub_bytes;
      }
      p = behind + minima_bytes + factor_bytes;
    }
  }
}

/** A row's scale in a panel: f32, or an integer of the width that the build's dot products use. */
@inline
function scale_at(p: usize, is_f32: bool): f32 {
  if (is_f32) return load<f32>(p);
  return PAIR_SUMS ? <f32>load<i16>(p) : <f32>load<i32>(p);
}

/** The four codes of quad t of a row's half, as f32. */
@inline
function quad(p: usize, t: usize, eight_bits: bool): v128 {
  if (HAS_RELAXED_DOT && !eight_bits)
    return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(p + (t << 5)))));
  p += t << 6;
  if (!I16_CODES) {
    const v = v128.or(v128.load32_zero(p), i16x8.shl(v128.load32_zero(p, 32), 4));
    return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.sub(i16x8.extend_low_i8x16_u(v), i16x8.splat(128))));
  }
  const v = v128.load32_lane(p + 32, v128.load32_zero(p), 1);
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(EVEN_ODD && eight_bits ? i16x8.shuffle(v, v, 0, 2, 1, 3, 4, 5, 6, 7) : v));
}
