/**
 * Weights whose codes are entries of a grid (format/grid.ts) or levels (format/levels.ts), as the panel of the GEMM, which is that of codes of 7 bits with a
 * scale for 16 or, in the simd build, of 8-bit codes (panel.ts).
 *
 * Where sums are i16, an u32 at MARKS() has a bit for each half of a sub-block, of which gemm_8x4_grid.ts could not add up the products of all four steps.
 */
import { PAIR_SUMS, group_scales, weight_order } from './dot';
import { SIGNED_CODES } from './dot_signed';
import { GRID_I16, OPENED, OPENED_ENTRIES, OPENED_SCALES, both_rows, codes, next_step, signed, steps } from './format/grid';
import { low_nibbles } from './format/constants';
import { G0, G1, G2, G3, load_scales } from './format/group';
import { CODES_AT, level_scales, levels_bytes } from './format/levels';
import { open_grid } from './open_grid';
import { PANEL } from './panel_room';
import { CODES, MARKS } from './panel_size';
import { lookup16 } from '../simd';
import { type_size } from '../type/ids';

/** What eight codes of a lane may be together: |activations| are 127 at most. No runs are marked of formats whose codes are MOST / 8 at most. */
const MOST: i16 = 32767 / 127;

/** Unpacks n blocks of 16 packed rows at w to the panels of 8 rows each; behind these is room for 8 * OPENED bytes. */
export function unpack_grid(type: u32, w: usize, n: i32, panel: usize, factor: f32, fours: bool, has_signs: bool, even: bool): void {
  const bytes = <usize>type_size(type) << 4;
  const opened = panel + 2 * PANEL();
  const shift = <i32>even; // of codes that are all even the panel has halves
  const marks = clear_marks(panel);
  factor *= <f32>(1 << shift);
  // Of the grids only those of iq2_* have larger codes (a panel has halves of iq3_xxs's).
  const large = PAIR_SUMS && has_signs && !fours;
  for (let bit: u32 = 1; n > 0; n--, bit <<= 16) {
    open_grid(type, w, opened);
    for (let g: usize = 0; g < 4; g++)
      group(opened + 2 * g * OPENED, group_at(panel, g), fours, has_signs, shift, large, marks_at(marks, g), bit);
    panel = store_factors(panel + 8 * SUB, w, factor);
    w += bytes;
  }
}

/** Unpacks n blocks of 16 packed rows of levels at w to the panels of 8 rows each. */
export function unpack_levels(w: usize, n: i32, panel: usize, levels_at: usize, factor: f32): void {
  const levels = v128.load(levels_at);
  const m = low_nibbles();
  const large = PAIR_SUMS && v128.any_true(i8x16.gt_s(levels, i8x16.splat(<i8>(MOST / 8))));
  const marks = clear_marks(panel);
  for (let bit: u32 = 1; n > 0; n--) {
    let q = w + CODES_AT;
    for (let sub: usize = 0; sub < 8; sub++) {
      const f = level_scales(w, sub, 0);
      const h = level_scales(w, sub, 1);
      for (let g: usize = 0; g < 4; g++) {
        const p = group_at(panel, g);
        let first = i32x4.splat(0);
        let second = first;
        for (let t: usize = 0; t < 4; t++) {
          const v = v128.load(q + (t << 6) + (g << 4));
          const x = lookup16(levels, v128.and(v, m));
          const z = lookup16(levels, v128.and(i16x8.shr_u(v, 4), m));
          store_quad(p, t, x, group_scales(f, g << 4));
          store_quad(p, t + 4, z, group_scales(h, g << 4));
          if (large) {
            first = plus_sizes(first, x);
            second = plus_sizes(second, z);
          }
        }
        if (large) mark(marks_at(marks, g), bit, first, second);
      }
      bit <<= 2;
      panel += SUB;
      q += 256;
    }
    panel = store_factors(panel, w, factor);
    w += levels_bytes();
  }
}

/** Clears the marks of both panels, and returns where the first one's are. */
function clear_marks(panel: usize): usize {
  if (!PAIR_SUMS) return panel;
  const marks = panel + MARKS();
  store<u32>(marks, 0);
  store<u32>(marks + PANEL(), 0);
  return marks;
}

@inline
function marks_at(marks: usize, g: usize): usize {
  return marks + (g >> 1) * PANEL();
}

/** s plus |codes| of a quad, as a row's two lanes have their products. */
@inline
function plus_sizes(s: v128, v: v128): v128 {
  return i16x8.add(s, i16x8.extadd_pairwise_i8x16_u(i8x16.abs(v)));
}

/** Marks the halves of a sub-block whose lanes have sums of |codes| that are too large; bit: that of the first one. */
@inline
function mark(marks: usize, bit: u32, first: v128, second: v128): void {
  const most = i16x8.splat(MOST);
  const a = <u32>v128.any_true(i16x8.gt_s(first, most));
  const b = <u32>v128.any_true(i16x8.gt_s(second, most));
  store<u32>(marks, load<u32>(marks) | (bit * (a | (b << 1))));
}

/** Where group g (0..3) begins in the panels. */
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
const SUB: usize = GRID_I16 ? SIGNED_CODES : CODES + 64;

/** A group's super-block, out of the two opened pairs at o. */
@inline
function group(o: usize, panel: usize, fours: bool, has_signs: bool, shift: i32, large: bool, marks: usize, bit: u32): void {
  const rows = both_rows();
  let e = o + OPENED_ENTRIES;
  for (let sub: usize = 0; sub < 8; sub++) {
    let s = steps(has_signs, o + (sub << 4));
    let z = steps(has_signs, o + (sub << 4) + OPENED);
    let first = i32x4.splat(0);
    let second = first;
    for (let t: usize = 0; t < 4; t++) {
      const v = signed(has_signs, part_of(codes(fours, e, t), fours, shift), s, rows);
      const u = signed(has_signs, part_of(codes(fours, e + OPENED, t), fours, shift), z, rows);
      const sc = scales(o + (sub << 2) + (t & 2));
      const x = i32x4.shuffle(v, u, 0, 2, 4, 6);
      const y = i32x4.shuffle(v, u, 1, 3, 5, 7);
      store_quad(panel, 2 * t, weight_order(x), sc);
      store_quad(panel, 2 * t + 1, weight_order(y), sc);
      s = next_step(has_signs, s);
      z = next_step(has_signs, z);
      if (!large) continue;
      if (t < 2) first = plus_sizes(plus_sizes(first, x), y);
      else second = plus_sizes(plus_sizes(second, x), y);
    }
    if (large) mark(marks, bit, first, second);
    bit <<= 2;
    panel += SUB;
    e += fours ? 32 : 16;
  }
}

/** Codes, or halves of codes that are all even: no bit of a byte reaches the next one. Only entries of four have such. */
@inline
function part_of(v: v128, fours: bool, shift: i32): v128 {
  return fours ? i16x8.shr_u(v, shift) : v;
}

/** A half's scales of the two opened pairs, as i16 twice for each row. */
@inline
function scales(o: usize): v128 {
  const v = v128.load16_splat(o, OPENED_SCALES);
  const u = v128.load16_splat(o, OPENED_SCALES + OPENED);
  return i16x8.extend_low_i8x16_u(i8x16.shuffle(v, u, 0, 0, 1, 1, 16, 16, 17, 17, 0, 0, 0, 0, 0, 0, 0, 0));
}

/** Signed codes of quad t (0..7) of a sub-block: as i16, times their scales, where dot_signed.ts has them; or of 7 bits, beside their scales. */
@inline
function store_quad(p: usize, t: usize, v: v128, scale: v128): void {
  if (GRID_I16) {
    p += t << 6;
    v128.store(p, i16x8.mul(i16x8.extend_low_i8x16_s(v), scale));
    v128.store(p, i16x8.mul(i16x8.extend_high_i8x16_s(v), scale), 32);
    return;
  }
  p += (t >> 2) * (CODES / 2 + 32) + ((t & 3) << 5);
  v128.store(p, i8x16.add(v, i8x16.splat(64)));
  if ((t & 3) == 0) v128.store(p, PAIR_SUMS ? scale : v128.and(scale, i32x4.splat(0xffff)), CODES / 2);
}
