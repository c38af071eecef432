/**
 * gemv_16x1.ts for codes of 4 bits that are indices into 16 levels (format/levels.ts): one column
 * of activations times 16 packed rows. The integer sums are those of gemv_16x1_grid.ts, and so are
 * the f32 operations.
 *
 * Levels are signed and have up to 7 bits. With i32 sums, they are looked up as unsigned level +
 * 64, and the start value takes the 64 off. i16 sums have no room for that: there activations come
 * as |activation| with separate signs (ACT_SIGNS in act.ts). As level(15 - code) = -level(code), a
 * negative activation flips the four bits of a code before the lookup: one operation for the codes
 * of both halves. i16 then has room for the products of two quads (4 * 43 * 127); one product with
 * their scale widens them to i32.
 *
 * Two to three times faster than the loop over the grid. Not kept: all groups unrolled with their
 * sums in registers (no faster in relaxed, slower in dotadd for lack of registers, 1 KB more of
 * each build); two groups at a time (slower). Codes of 3 bits, enough for the levels of iq1_* and
 * iq2_*, would take ten operations for the four vectors of a half instead of six.
 */
import { ACT_D, ACT_LANE_SUMS0, ACT_LANE_SUMS1, ACT_SUB, SIGNS_AT, SIGNS_D, SIGNS_SUB } from './act';
import { PAIR_SUMS, QUANT_BYTES, group_scales, mac_quad_at, scaled } from './dot';
import { add_block, start as start_of } from './epilogue';
import { low_nibbles } from './format/constants';
import { Codes7, Codes8 } from './format/grid';
import { G0, G1, G2, G3, f16x4_finite, splat, store_sums } from './format/group';
import { CODES_AT, level_scales, levels_bytes } from './format/levels';
import { HAS_RELAXED_DOT, lookup16 } from '../simd';

/**
 * Bytes of a sub-block of activations, offset of the block's scale, and bytes from one quad of a
 * half to the next and from the first half to the second.
 */
const SUB: usize = PAIR_SUMS ? SIGNS_SUB : ACT_SUB;
const D: usize = PAIR_SUMS ? SIGNS_D : ACT_D;
const QUAD: usize = PAIR_SUMS ? 8 : 4 * QUANT_BYTES;
const SECOND: usize = PAIR_SUMS ? 4 : 16 * QUANT_BYTES;

/**
 * y[0..15] = 16 packed rows at w . the column of activations at a; n super-blocks. scratch: 64
 * bytes.
 */
export function gemv_16x1_levels(w: usize, n: i32, a: usize, y: usize, scratch: usize, levels_at: usize, factor: f32): void {
  const levels = PAIR_SUMS ? v128.load(levels_at) : i8x16.add(v128.load(levels_at), i8x16.splat(64));
  const m = low_nibbles();
  const zero = i32x4.splat(0);
  store_sums(y, zero, zero, zero, zero);
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, D);
    store_sums(scratch, zero, zero, zero, zero);
    let q = w + CODES_AT;
    for (let sub: usize = 0; sub < 8; sub++) {
      const first = level_scales(w, sub, 0);
      const second = level_scales(w, sub, 1);
      const start0 = start(a, ACT_LANE_SUMS0);
      const start1 = start(a, ACT_LANE_SUMS1);
      const flips = PAIR_SUMS ? flipped(a, m) : zero;
      const m0 = splat<G0>(flips);
      const m1 = splat<G1>(flips);
      const m2 = splat<G2>(flips);
      const m3 = splat<G3>(flips);
      // A loop over the groups, whose sums are in memory. Unrolled it is no faster, and 1 KB of
      // each build.
      for (let g: usize = 0; g < 64; g += 16) {
        const f = scale(first, g);
        const h = scale(second, g);
        let i = v128.load(scratch + g);
        let v = flip(v128.load(q), m0);
        let e = flip(v128.load(q, 64), m1);
        let s = two_quads(start0, low(levels, v, m), low(levels, e, m), a);
        let u = two_quads(start1, high(levels, v, m), high(levels, e, m), a + SECOND);
        if (PAIR_SUMS) i = add_halves(i, s, f, u, h);
        v = flip(v128.load(q, 128), m2);
        e = flip(v128.load(q, 192), m3);
        s = two_quads(s, low(levels, v, m), low(levels, e, m), a + 2 * QUAD);
        u = two_quads(u, high(levels, v, m), high(levels, e, m), a + 2 * QUAD + SECOND);
        v128.store(scratch + g, add_halves(i, s, f, u, h));
        q += 16;
      }
      a += SUB;
      q += 192;
    }
    for (let g: usize = 0; g < 64; g += 16) {
      const d = f32x4.mul(f16x4_finite(v128.load16x4_s(w + (g >> 1))), f32x4.splat(factor));
      v128.store(y + g, add_block<Codes8>(v128.load(y + g), v128.load(scratch + g), d, da));
    }
    w += levels_bytes();
  }
}

/**
 * Masks that flip a sub-block's codes, four bytes for each quad: the low nibble is set if the first
 * half's activation is negative, the high one if the second half's is.
 */
@inline
function flipped(a: usize, m: v128): v128 {
  const s = v128.load(a, SIGNS_AT);
  const t = v128.load(a, SIGNS_AT + 16);
  return v128.bitselect(i32x4.shuffle(s, t, 0, 2, 4, 6), i32x4.shuffle(s, t, 1, 3, 5, 7), m);
}

@inline
function flip(v: v128, flips: v128): v128 {
  return PAIR_SUMS ? v128.xor(v, flips) : v;
}

/** Levels of the first half's codes, and of the second half's. */
@inline
function low(levels: v128, v: v128, m: v128): v128 {
  return lookup16(levels, v128.and(v, m));
}

@inline
function high(levels: v128, v: v128, m: v128): v128 {
  return lookup16(levels, v128.and(i16x8.shr_u(v, 4), m));
}

/**
 * Start value of a half's sums: with i32 sums, 64 times the (negated) sums of its activations. at:
 * offset of its lane sums in the sub-block.
 */
@inline
function start(a: usize, at: usize): v128 {
  return PAIR_SUMS ? i32x4.splat(0) : start_of<Codes7>(v128.load32_splat(a + at));
}

/** A half's scales for group g / 16, as `scaled` takes them. */
@inline
function scale(scales: v128, g: usize): v128 {
  const v = group_scales(scales, g);
  return HAS_RELAXED_DOT ? v : i32x4.shr_u(v, 16);
}

/**
 * Sums of two quads of levels: c times the activations at p, e times the next ones. i32 sums are
 * added to s; i16 sums start from 0.
 */
@inline
function two_quads(s: v128, c: v128, e: v128, p: usize): v128 {
  const x = v128.load32_splat(p);
  const z = v128.load32_splat(p, QUAD);
  if (!PAIR_SUMS) return mac_quad_at(mac_quad_at(s, x, p, c), z, p + QUAD, e);
  return i16x8.add(i16x8.relaxed_dot_i8x16_i7x16_s(c, x), i16x8.relaxed_dot_i8x16_i7x16_s(e, z));
}

/** Adds the sums of both halves, times their scales, to i. */
@inline
function add_halves(i: v128, s: v128, f: v128, u: v128, h: v128): v128 {
  return i32x4.add(i32x4.add(i, scaled(s, f)), scaled(u, h));
}
