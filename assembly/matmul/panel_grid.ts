/**
 * Weights whose codes are entries of a grid (format/grid.ts) or levels (format/levels.ts), as the panel of the GEMM, which is that of
 * 8-bit codes (panel.ts) or, in dotadd builds, of codes of 7 bits with a scale for 16.
 */
import { group_scales, weight_order } from './dot';
import { EVEN_ODD, I16_CODES, SIGNED_CODES, even_bytes, odd_bytes } from './dot_signed';
import { OPENED, OPENED_ENTRIES, OPENED_SCALES, both_rows, next_step, signed_codes, steps } from './format/grid';
import { low_nibbles } from './format/constants';
import { G0, G1, G2, G3, load_scales } from './format/group';
import { CODES_AT, OfLevels, level_scales } from './format/levels';
import { PANEL } from './panel_room';
import { CODES } from './panel_size';
import { lookup16 } from '../simd';

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
  for (; n > 0; n--) {
    call_indirect<void>(open_at, w, opened);
    for (let g: usize = 0; g < 4; g++) group(opened + 2 * g * OPENED, group_at(panel, g), fours, has_signs);
    panel = store_factors(panel + 8 * SUB, w, factor);
    w += bytes;
  }
}

/** Unpacks n blocks of 16 packed rows of levels at w to the panels of 8 rows each. at: their levels. */
export function unpack_levels(w: usize, n: i32, panel: usize, at: usize, factor: f32): void {
  const levels = v128.load(at);
  const m = low_nibbles();
  for (; n > 0; n--) {
    let q = w + CODES_AT;
    for (let sub: usize = 0; sub < 8; sub++) {
      const f = level_scales(w, sub, 0);
      const h = level_scales(w, sub, 1);
      for (let g: usize = 0; g < 4; g++) {
        const p = group_at(panel, g);
        for (let t: usize = 0; t < 4; t++) {
          const v = v128.load(q + (t << 6) + (g << 4));
          store_quad(p, t, lookup16(levels, v128.and(v, m)), group_scales(f, g << 4));
          store_quad(p, t + 4, lookup16(levels, v128.and(i16x8.shr_u(v, 4), m)), group_scales(h, g << 4));
        }
      }
      panel += SUB;
      q += 256;
    }
    panel = store_factors(panel, w, factor);
    w += changetype<OfLevels>(0).bytes();
  }
}

/** Where group g (0..3) begins in the panels. */
// @ts-ignore: decorator
@inline
function group_at(panel: usize, g: usize): usize {
  return panel + (g & 1) * 16 + (g >> 1) * PANEL();
}

/** Stores d of 16 rows behind a block of the panels; returns where the next one begins. */
function store_factors(panel: usize, w: usize, factor: f32): usize {
  const e = f32x4.splat(factor);
  v128.store(panel, f32x4.mul(load_scales<G0>(w), e));
  v128.store(panel, f32x4.mul(load_scales<G1>(w), e), 16);
  v128.store(panel + PANEL(), f32x4.mul(load_scales<G2>(w), e));
  v128.store(panel + PANEL(), f32x4.mul(load_scales<G3>(w), e), 16);
  return panel + 32;
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
      const sc = scales(o + (sub << 2) + (t & 2));
      store_quad(panel, 2 * t, weight_order(i32x4.shuffle(v, u, 0, 2, 4, 6)), sc);
      store_quad(panel, 2 * t + 1, weight_order(i32x4.shuffle(v, u, 1, 3, 5, 7)), sc);
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

/** Signed codes of quad t (0..7) of a sub-block: as i16, times their scales, where dot_signed.ts has them; or of 7 bits, beside their scales as i32. */
// @ts-ignore: decorator
@inline
function store_quad(p: usize, t: usize, v: v128, scale: v128): void {
  if (I16_CODES) {
    p += t << 6;
    v128.store(p, i16x8.mul(EVEN_ODD ? even_bytes(v) : i16x8.extend_low_i8x16_s(v), scale));
    v128.store(p, i16x8.mul(EVEN_ODD ? odd_bytes(v) : i16x8.extend_high_i8x16_s(v), scale), 32);
    return;
  }
  p += (t >> 2) * (CODES / 2 + 32) + ((t & 3) << 5);
  v128.store(p, i8x16.add(v, i8x16.splat(64)));
  if ((t & 3) == 0) v128.store(p, v128.and(scale, i32x4.splat(0xffff)), CODES / 2);
}
