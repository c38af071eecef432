/**
 * gemv.ts for 8-bit codes (q8_0, iq4_nl, iq4_xs) in builds with relaxed SIMD: one activation row times 16 packed rows.
 *
 * The relaxed dot multiplies signed bytes and unsigned ones of 7 bits. The signed ones are the weights here, the unsigned ones |activation|: the sign
 * of an activation, the same for all rows, moves to the weights. For a negative one a * w = |a| * ~w + |a|: one xor makes ~w, and the sum of such |a| is
 * what the rows' integer sums start at. Activations are prepared so once for all rows of a call, in the order in which the loop reads them:
 *
 *   run: | |quants| of k 0..3, 16..19, 4..7, 20..23, ... (32) | their signs, 255 where negative (32) | d f32 | sum of |negative quants| i32 |
 *
 * Four operations for 16 codes of q8_0 (x64: vpxor, vpmaddubsw, vpmaddwd, vpaddd; with a dot-add two), where two nibbles with sums of their own take
 * seven: 32 GMAC/s instead of 23, and 34 GB/s from memory instead of 24 (Zen 4, Node 24). The same f32 operations as gemm_wide.ts, in the same order.
 */
import { ACT_BLOCK, ACT_D } from './act';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, ROWS, store_sums } from './packed/group';
import { held_ones, hsum_i32, madd } from './simd';

/** Byte offsets in a prepared run. */
const SIGNS: usize = 32;
const SCALE: usize = 64;
const START: usize = 68;
const RUN: usize = 72;
/** Runs prepared at a time: 36 KB. */
const MOST: i32 = 512;
/** Bytes of scratch. */
export const PREPARED: usize = <usize>MOST * RUN;

/** y[row] for rows [row0, row1) at w of n blocks, one column of activations at a. kept: scratch has them prepared. scratch: PREPARED bytes; spare: 64 more. */
export function column_wide<F, D>(w: usize, n: i32, row0: i32, row1: i32, a: usize, y: usize, kept: bool, scratch: usize, spare: usize): void {
  const most = MOST / fmt.subs<F>(), whole = row1 - (row1 - row0) % ROWS;
  for (let b = 0; b < n; b += most) {
    const blocks = min(most, n - b);
    if (!kept || n > most) prepare<D>(a + <usize>(b * fmt.subs<F>()) * ACT_BLOCK, blocks * fmt.subs<F>(), scratch);
    for (let row = row0; row < row1; row += ROWS) {
      gemv_wide<F, D>(w + (<usize>(row / ROWS) * n + b) * changetype<F>(0).bytes(), blocks, scratch, row < whole ? y + (<usize>row << 2) : spare, b > 0);
    }
  }
  if (whole < row1) memory.copy(y + (<usize>whole << 2), spare, <usize>(row1 - whole) << 2);
}

/** n runs of activations at a to p. */
function prepare<D>(a: usize, n: i32, p: usize): void {
  const dot = changetype<D>(0), ones = held_ones(), zero = i32x4.splat(0);
  for (; n > 0; n--) {
    const first = v128.load(a), second = v128.load(a, 16);
    const x = v128.shuffle<i32>(first, second, 0, 4, 1, 5), z = v128.shuffle<i32>(first, second, 2, 6, 3, 7);
    const mx = i8x16.lt_s(x, zero), mz = i8x16.lt_s(z, zero), ax = i8x16.abs(x), az = i8x16.abs(z);
    v128.store(p, ax);
    v128.store(p, az, 16);
    v128.store(p, mx, SIGNS);
    v128.store(p, mz, SIGNS + 16);
    store<i32>(p, load<i32>(a, ACT_D), SCALE);
    store<i32>(p, -hsum_i32(dot.wide(dot.wide(zero, ax, mx, ones), az, mz, ones)), START);
    a += ACT_BLOCK;
    p += RUN;
  }
}

/** y[0..15] = (`more`: +=) n blocks of 16 packed rows at w . prepared activations at a. */
function gemv_wide<F, D>(w: usize, n: i32, a: usize, y: usize, more: bool): void {
  const f = changetype<F>(0), dot = changetype<D>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>(), ones = held_ones(), none = i32x4.splat(0);
  let y0 = f32x4.splat(0), y1 = y0, y2 = y0, y3 = y0;
  if (more) y0 = v128.load(y), y1 = v128.load(y, 16), y2 = v128.load(y, 32), y3 = v128.load(y, 48);
  for (; n > 0; n--) {
    const da = v128.load32_splat(a, SCALE);
    let sub = 0, i0 = none, i1 = none, i2 = none, i3 = none;
    do {
      let s0 = v128.load32_splat(a, START), s1 = s0, s2 = s0, s3 = s0, p = a, q = f.quads(w, sub);
      for (const end = a + SIGNS; p != end; p += 8) {
        let x = v128.load32_splat(p), s = v128.load32_splat(p, SIGNS);
        let v0 = fmt.load_lo<F, G0>(q), v1 = fmt.load_lo<F, G1>(q), v2 = fmt.load_lo<F, G2>(q), v3 = fmt.load_lo<F, G3>(q);
        s0 = dot.wide(s0, x, v128.xor(fmt.lo<F>(v0, none, m, m2), s), ones), s1 = dot.wide(s1, x, v128.xor(fmt.lo<F>(v1, none, m, m2), s), ones);
        s2 = dot.wide(s2, x, v128.xor(fmt.lo<F>(v2, none, m, m2), s), ones), s3 = dot.wide(s3, x, v128.xor(fmt.lo<F>(v3, none, m, m2), s), ones);
        x = v128.load32_splat(p, 4), s = v128.load32_splat(p, SIGNS + 4);
        v0 = fmt.load_hi<F, G0>(q, v0), v1 = fmt.load_hi<F, G1>(q, v1), v2 = fmt.load_hi<F, G2>(q, v2), v3 = fmt.load_hi<F, G3>(q, v3);
        s0 = dot.wide(s0, x, v128.xor(fmt.hi<F>(v0, none, m, m2), s), ones), s1 = dot.wide(s1, x, v128.xor(fmt.hi<F>(v1, none, m, m2), s), ones);
        s2 = dot.wide(s2, x, v128.xor(fmt.hi<F>(v2, none, m, m2), s), ones), s3 = dot.wide(s3, x, v128.xor(fmt.hi<F>(v3, none, m, m2), s), ones);
        q += fmt.quad_bytes<F>();
      }
      const sc = fmt.sc<F>(w, sub);
      i0 = add_run<F, G0>(i0, s0, sc), i1 = add_run<F, G1>(i1, s1, sc), i2 = add_run<F, G2>(i2, s2, sc), i3 = add_run<F, G3>(i3, s3, sc);
      a += RUN;
    } while (fmt.super_block<F>() && ++sub < fmt.subs<F>());
    y0 = add_block<F>(y0, i0, f.d<G0>(w), da), y1 = add_block<F>(y1, i1, f.d<G1>(w), da);
    y2 = add_block<F>(y2, i2, f.d<G2>(w), da), y3 = add_block<F>(y3, i3, f.d<G3>(w), da);
    w += f.bytes();
  }
  store_sums(y, y0, y1, y2, y3);
}

/** A run's sums: a block's, or with their scales onto the super-block's. */
// @ts-ignore: decorator
@inline
function add_run<F, G>(i: v128, s: v128, sc: v128): v128 { return fmt.super_block<F>() ? i32x4.add(i, i32x4.mul(s, fmt.scale<F, G>(sc))) : s; }

// @ts-ignore: decorator
@inline
function add_block<F>(y: v128, i: v128, d: v128, da: v128): v128 {
  return fmt.super_block<F>() ? fmt.add_super_block(y, i, d, da) : madd(f32x4.convert_i32x4_s(i), f32x4.mul(d, da), y);
}
