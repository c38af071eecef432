/**
 * Weights whose codes are entries of a grid (format/grid.ts), as the panel of the GEMM, which is that of
 * 8-bit codes (panel.ts) or, in dotadd builds, of codes of 7 bits with a scale for 16.
 */
import { weight_order } from './dot';
import { EVEN_ODD, I16_CODES, SIGNED_CODES, even_bytes, odd_bytes } from './dot_signed';
import { OPENED, OPENED_ENTRIES, OPENED_SCALES, both_rows, next_step, signed_codes, steps } from './format/grid';
import { G0, G1, G2, G3, load_scales } from './format/group';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';

/** Unpacks n blocks of `bytes` of 16 packed rows at w to the panels of 8 rows each. opened: scratch of 8 * OPENED bytes. */
export function unpack_grid(
  w: usize,
  n: i32,
  panel: usize,
  opened: usize,
  bytes: usize,
  factor: f32,
  open_at: u32,
  fours: bool,
  has_signs: bool,
): void {
  const e = f32x4.splat(factor);
  for (; n > 0; n--) {
    call_indirect<void>(open_at, w, opened);
    for (let g: usize = 0; g < 4; g++) group(opened + 2 * g * OPENED, panel + (g & 1) * 16 + (g >> 1) * PANEL(), fours, has_signs);
    panel += 8 * SUB;
    v128.store(panel, f32x4.mul(load_scales<G0>(w), e));
    v128.store(panel, f32x4.mul(load_scales<G1>(w), e), 16);
    v128.store(panel + PANEL(), f32x4.mul(load_scales<G2>(w), e));
    v128.store(panel + PANEL(), f32x4.mul(load_scales<G3>(w), e), 16);
    panel += 32;
    w += bytes;
  }
}

/** Bytes of a sub-block in a panel. */
const SUB: usize = I16_CODES ? SIGNED_CODES : CODES + 64;

/** A group's super-block, out of the two opened pairs at o. */
// @ts-ignore: decorator
@inline
function group(o: usize, panel: usize, fours: bool, has_signs: bool): void {
  const rows = both_rows();
  let e = o + OPENED_ENTRIES;
  for (let sub: usize = 0; sub < 8; sub++) {
    let s = steps(has_signs, o + (sub << 4));
    let z = steps(has_signs, o + (sub << 4) + OPENED);
    for (let t: usize = 0; t < 4; t++) {
      const v = signed_codes(fours, has_signs, e, t, s, rows);
      const u = signed_codes(fours, has_signs, e + OPENED, t, z, rows);
      const sc = o + (sub << 2) + (t & 2);
      store_step(panel, t, i32x4.shuffle(v, u, 0, 2, 4, 6), i32x4.shuffle(v, u, 1, 3, 5, 7), scales(sc));
      s = next_step(has_signs, s);
      z = next_step(has_signs, z);
    }
    panel += SUB;
    e += fours ? 32 : 16;
  }
}

/** A half's scales of the two opened pairs, as i16 twice for each row. */
// @ts-ignore: decorator
@inline
function scales(o: usize): v128 {
  const v = v128.load16_splat(o, OPENED_SCALES);
  const u = v128.load16_splat(o, OPENED_SCALES + OPENED);
  return i16x8.extend_low_i8x16_u(i8x16.shuffle(v, u, 0, 0, 1, 1, 16, 16, 17, 17, 0, 0, 0, 0, 0, 0, 0, 0));
}

/** Quads 2t and 2t + 1 of a sub-block. */
// @ts-ignore: decorator
@inline
function store_step(p: usize, t: usize, first: v128, second: v128, scale: v128): void {
  if (I16_CODES) {
    p += t << 7;
    store_words(p, first, scale);
    store_words(p + 64, second, scale);
    return;
  }
  p += (t >> 1) * (CODES / 2 + 32) + ((t & 1) << 6);
  v128.store(p, i8x16.add(first, i8x16.splat(64)));
  v128.store(p, i8x16.add(second, i8x16.splat(64)), 32);
  if ((t & 1) == 0) v128.store(p, i32x4.shr_u(scale, 16), CODES / 2);
}

/** A quad's codes as i16, times their scales, where dot_signed.ts has them. */
// @ts-ignore: decorator
@inline
function store_words(p: usize, codes: v128, scale: v128): void {
  const v = weight_order(codes);
  v128.store(p, i16x8.mul(EVEN_ODD ? even_bytes(v) : i16x8.extend_low_i8x16_s(v), scale));
  v128.store(p, i16x8.mul(EVEN_ODD ? odd_bytes(v) : i16x8.extend_high_i8x16_s(v), scale), 32);
}
