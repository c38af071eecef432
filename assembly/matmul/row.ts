/**
 * A row of packed weights as f32 (get_rows of a tied token_embd), read out of the GEMM's panel (panel.ts), which is alike for all formats: one function
 * does for them where one for each was 10 KB of every build. All 16 rows of a row block are unpacked for it, a few microseconds a token.
 */
import { HAS_RELAXED_DOT } from '../simd';
import { PAIR_SUMS } from './dot';
import { EVEN_ODD, I16_CODES, SIGNED_CODES } from './dot_signed';
import * as fmt from './format/format';
import { Codes7, Codes8 } from './format/grid';
import { ROWS } from './format/group';
import { PANEL } from './panel_room';
import * as size from './panel_size';
import { CODES } from './panel_size';
import { unpack_index } from './product';

/** Unpacks row `row` of the packed tensor at w to ne00 f32 at y: the bits of dequantize_row. panel: scratch of gemm_scratch() bytes. */
// @ts-ignore: decorator
@inline
export function row_of<F>(w: usize, ne00: i32, row: i32, y: usize, panel: usize): void {
  const blocks = ne00 / fmt.weights<F>();
  const bytes = changetype<F>(0).bytes();
  if (!fmt.grid<F>()) row_of_panels<F>(w, blocks, row, y, panel, bytes, unpack_index<F>());
  else if (I16_CODES) row_of_panels<Codes8>(w, blocks, row, y, panel, bytes, unpack_index<F>());
  else row_of_panels<Codes7>(w, blocks, row, y, panel, bytes, unpack_index<F>());
}

/** The same of blocks of `bytes` whose panel is that of F; unpack_at: place of what unpacks them in the function table. */
// @ts-ignore: decorator
@inline
function row_of_panels<F>(w: usize, blocks: i32, row: i32, y: usize, panel: usize, bytes: usize, unpack_at: u32): void {
  const subs = fmt.few_bits<F>() ? 2 : fmt.subs<F>();
  const runs = fmt.few_bits<F>() ? fmt.subs<F>() >> 1 : 1;
  const scales = !fmt.super_block<F>() || size.scaled_codes<F>() ? 0 : fmt.f32_scales<F>() ? 3 : fmt.s16<F>() ? 2 : 1;
  const minima = !fmt.has_min<F>() ? 0 : !fmt.super_block<F>() ? 1 : fmt.s16<F>() ? 3 : 2;
  const sub: usize = fmt.few_bits<F>() ? CODES : size.sub_bytes<F>();
  // prettier-ignore
  row_of_panel(
    w, blocks, row, y, panel, bytes, unpack_at, runs, subs, sub, fmt.eight_bits<F>(), <f32>fmt.centre<F>(), scales, minima,
    size.minima_bytes<F>(), size.factor_bytes<F>(),
  );
}

/**
 * A block has `runs` runs of `subs` sub-blocks with a d. scales: how many integer scales a sub-block has behind its codes (its halves); 3: two
 * that are f32, and no d. minima: 0 none, 1 an
 * f32, 2 an integer for each sub-block, 3 for each half.
 */
function row_of_panel(
  w: usize,
  blocks: i32,
  row: i32,
  y: usize,
  panel: usize,
  bytes: usize,
  unpack_at: u32,
  runs: i32,
  subs: i32,
  sub_bytes: usize,
  eight_bits: bool,
  centre: f32,
  scales: i32,
  minima: i32,
  minima_bytes: usize,
  factor_bytes: usize,
): void {
  const taken_off = f32x4.splat(centre);
  const codes: usize = eight_bits ? SIGNED_CODES : CODES;
  const half: usize = codes >> 1;
  const second: usize = scales > 1 ? half + 32 : half;
  // Where the row is in what 8 rows have.
  const in_panel = panel + ((row & 8) != 0 ? PANEL() : 0) + <usize>((row & 7) << 2);
  w += <usize>(row / ROWS) * blocks * bytes;
  for (; blocks > 0; blocks--, w += bytes) {
    call_indirect<void>(unpack_at, w, 1, panel);
    let p = in_panel;
    for (let run = 0; run < runs; run++) {
      const behind = p + <usize>subs * sub_bytes;
      const d: f32 = scales == 3 ? 1 : load<f32>(behind + minima_bytes);
      const dmin = minima == 0 ? <f32>-0.0 : load<f32>(behind + minima_bytes, 32);
      for (let i = 0; i < 2 * subs; i++, y += 64) {
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

/** A row's scale, an integer (dot.ts) or f32. */
// @ts-ignore: decorator
@inline
function scale_at(p: usize, is_f32: bool): f32 {
  if (is_f32) return load<f32>(p);
  return PAIR_SUMS ? <f32>load<i16>(p) : <f32>load<i32>(p);
}

/** The four codes of a row's quad t of a half as f32. */
// @ts-ignore: decorator
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
