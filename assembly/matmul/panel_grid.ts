/**
 * Panels of weights whose codes are entries of a grid (format/grid.ts) or levels
 * (format/levels.ts). The layout is that of 7-bit codes with a scale for every 16 or, in the simd
 * build, of 8-bit codes (panel.ts).
 *
 * With i16 sums, an u32 at MARKS() has a bit for each half sub-block whose products
 * gemm_8x4_grid.ts cannot add up over all four steps.
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

/**
 * Largest sum of the |codes| of a lane whose products fit i16: |activations| are at most 127.
 * Formats whose codes are at most MOST / 8 need no marks.
 */
const MOST: i16 = 32767 / 127;

/**
 * Unpacks n blocks of 16 packed rows at w to two panels of 8 rows. After the panels there must be
 * room for 8 * OPENED bytes.
 */
export function unpack_grid(type: u32, w: usize, n: i32, panel: usize, factor: f32, fours: bool, has_signs: bool, even: bool): void {
  const bytes = <usize>type_size(type) << 4;
  const opened = panel + 2 * PANEL();
  const shift = <i32>even; // codes that are all even are stored halved
  const marks = clear_marks(panel);
  factor *= <f32>(1 << shift);
  // Among grids only iq2_* have larger codes. (Those of iq3_xxs are halved.)
  const large = PAIR_SUMS && has_signs && !fours;
  for (let bit: u32 = 1; n > 0; n--, bit <<= 16) {
    open_grid(type, w, opened);
    for (let g: usize = 0; g < 4; g++)
      group(opened + 2 * g * OPENED, group_at(panel, g), fours, has_signs, shift, large, marks_at(marks, g), bit);
    panel = store_factors(panel + 8 * SUB, w, factor);
    w += bytes;
  }
}

/** Unpacks n blocks of 16 packed rows of levels at w to two panels of 8 rows. */
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

/** Clears the marks of both panels; returns the address of the first panel's. */
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

/** Adds the |codes| of a quad to s, in the two lanes in which a row's products are summed. */
@inline
function plus_sizes(s: v128, v: v128): v128 {
  return i16x8.add(s, i16x8.extadd_pairwise_i8x16_u(i8x16.abs(v)));
}

/**
 * Marks the halves of a sub-block in which a lane's sum of |codes| is too large. bit: the first
 * half's.
 */
@inline
function mark(marks: usize, bit: u32, first: v128, second: v128): void {
  const most = i16x8.splat(MOST);
  const a = <u32>v128.any_true(i16x8.gt_s(first, most));
  const b = <u32>v128.any_true(i16x8.gt_s(second, most));
  store<u32>(marks, load<u32>(marks) | (bit * (a | (b << 1))));
}

/** Address in the panels at which group g (0..3) begins. */
@inline
function group_at(panel: usize, g: usize): usize {
  return panel + (g & 1) * 16 + (g >> 1) * PANEL();
}

/** Stores d of 16 rows after a block of the panels; returns the address of the next block. */
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

/** Unpacks a group's super-block, from the two opened pairs at o. */
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

/**
 * Codes, or half of each if all are even. Then no bit of a byte reaches its neighbour. Only entries
 * of four values can be even.
 */
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

/**
 * Stores the signed codes of quad t (0..7) of a sub-block: as i16 times their scales
 * (dot_signed.ts), or as 7-bit codes with the scales stored next to them.
 */
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
