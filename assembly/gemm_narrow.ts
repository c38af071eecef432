/**
 * A step of several clients spends its time here: 2 to NARROW activation rows times packed weights. Too few columns to pay for a panel (gemm.ts):
 * the codes of 8 rows x 16 weights are unpacked into eight registers, and all columns run over them.
 *
 *   for 16 rows              one sequential stream of weights, as in gemv.ts
 *     for 32 weights
 *       for 8 rows           two groups share what is loaded of a column
 *         for 2 quads        four vectors of codes of each group
 *           for each column  eight dots; the first half leaves its integer sums in L1, the second takes the f32 step
 *
 * The same operations in the same order as gemv.ts and gemm.ts, output by output: the same bits.
 * Instructions per dot are what counts (see gemm.ts): with one group at a time and all four quads in registers 8 columns had 41 GMAC/s,
 * here 46, and over a panel 34 (q4_0 from memory, Zen 4, Node 24).
 */
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1, NARROW } from './act';
import * as fmt from './packed/format';
import { ACC, G0, G1, G2, G3 } from './packed/group';
import { k_min } from './packed/k_scales';
import { held_ones } from './simd';

/** Bytes of one column's integer sums between the halves. */
const PART: usize = 32;
/** Factors of a run: d of 16 rows, or their integer scales. */
const PARTS: usize = 64;
/** Bytes of scratch, the sums that are its result first. */
export const NARROW_SCRATCH: usize = PARTS + <usize>NARROW * (ACC + PART + ACC);

/**
 * acc[column][0..15] += 16 packed rows at w . the column's activations; n blocks. scratch: PARTS + ncols * (PART + ACC) bytes.
 * A super-block's integer sums lie behind the parts.
 */
export function gemm_16xn<F, D>(w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  const f = changetype<F>(0), end = acc + <usize>ncols * ACC, parts = scratch + PARTS, sums = parts + <usize>ncols * PART;
  for (; n > 0; n--) {
    if (fmt.super_block<F>()) memory.fill(sums, 0, <usize>ncols * ACC);
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      const sc = fmt.sc<F>(w, sub);
      factors<F, G0>(w, sc, scratch);
      factors<F, G1>(w, sc, scratch + 16);
      factors<F, G2>(w, sc, scratch + 32);
      factors<F, G3>(w, sc, scratch + 48);
      const q = f.quads(w, sub), h = fmt.high<F>(w, sub);
      for (let g: usize = 0; g < 64; g += 32) {
        first_half<F, D>(q + g, h + g, a, stride, acc + g, end, parts);
        second_half<F, D>(q + g, h + g, a, stride, acc + g, end, parts, scratch + g, sums - acc);
      }
      a += ACT_BLOCK;
    }
    if (fmt.super_block<F>()) super_block_step<F>(w, a - 8 * ACT_BLOCK, stride, acc, end, sums);
    w += f.bytes();
  }
}

/** A super-block's integer sums to the f32 sums, column after column. */
function super_block_step<F>(w: usize, a: usize, stride: usize, y: usize, end: usize, sums: usize): void {
  const zero = i32x4.splat(0);
  for (; y < end; y += ACC, a += stride, sums += ACC) {
    let n0 = zero, n1 = zero, n2 = zero, n3 = zero, p = a + ACT_BLOCK + ACT_D;
    for (let i = 0; i < 8; i += 2) {
      const x = v128.load32_splat(p), v = fmt.mn<F>(w, i), z = fmt.mn<F>(w, i + 1);
      n0 = i32x4.add(n0, i32x4.dot_i16x8_s(k_min<G0>(v), x)), n1 = i32x4.add(n1, i32x4.dot_i16x8_s(k_min<G1>(v), x));
      n2 = i32x4.add(n2, i32x4.dot_i16x8_s(k_min<G2>(z), x)), n3 = i32x4.add(n3, i32x4.dot_i16x8_s(k_min<G3>(z), x));
      p += 2 * ACT_BLOCK;
    }
    const da = v128.load32_splat(a, ACT_D);
    v128.store(y, fmt.add_super_block<F, G0>(v128.load(y), v128.load(sums), n0, w, da));
    v128.store(y, fmt.add_super_block<F, G1>(v128.load(y, 16), v128.load(sums, 16), n1, w, da), 16);
    v128.store(y, fmt.add_super_block<F, G2>(v128.load(y, 32), v128.load(sums, 32), n2, w, da), 32);
    v128.store(y, fmt.add_super_block<F, G3>(v128.load(y, 48), v128.load(sums, 48), n3, w, da), 48);
  }
}

/** Integer sums of quads 0 and 1, column after column, to part. */
// @ts-ignore: decorator
@inline
function first_half<F, D>(q: usize, h: usize, a: usize, stride: usize, y: usize, end: usize, part: usize): void {
  const dot = changetype<D>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>(), next = q + fmt.quad_bytes<F>();
  const x0 = low<F, G0>(q, h, 0, m, m2), x1 = low<F, G0>(next, h, 1, m, m2), x2 = high<F, G0>(q, h, 0, m, m2), x3 = high<F, G0>(next, h, 1, m, m2);
  const z0 = low<F, G1>(q, h, 0, m, m2), z1 = low<F, G1>(next, h, 1, m, m2), z2 = high<F, G1>(q, h, 0, m, m2), z3 = high<F, G1>(next, h, 1, m, m2);
  for (; y < end; y += ACC, a += stride, part += PART) {
    let s = start<F, D>(a), t = s;
    let k = v128.load32_splat(a);
    s = dot.mac(s, k, x0), t = dot.mac(t, k, z0);
    k = v128.load32_splat(a, 4);
    s = dot.mac(s, k, x1), t = dot.mac(t, k, z1);
    k = v128.load32_splat(a, 16);
    s = dot.mac(s, k, x2), t = dot.mac(t, k, z2);
    k = v128.load32_splat(a, 20);
    s = dot.mac(s, k, x3), t = dot.mac(t, k, z3);
    v128.store(part, s);
    v128.store(part, t, 16);
  }
}

/** Quads 2 and 3 onto them, and the run's f32 step; in super-blocks onto the integer sums, which lie `behind` bytes behind y. */
// @ts-ignore: decorator
@inline
function second_half<F, D>(q: usize, h: usize, a: usize, stride: usize, y: usize, end: usize, part: usize, factors: usize, behind: usize): void {
  const dot = changetype<D>(0), m = fmt.mask<F>(), m2 = fmt.mask2<F>(), ones = held_ones();
  q += 2 * fmt.quad_bytes<F>();
  const next = q + fmt.quad_bytes<F>();
  const x0 = low<F, G0>(q, h, 2, m, m2), x1 = low<F, G0>(next, h, 3, m, m2), x2 = high<F, G0>(q, h, 2, m, m2), x3 = high<F, G0>(next, h, 3, m, m2);
  const z0 = low<F, G1>(q, h, 2, m, m2), z1 = low<F, G1>(next, h, 3, m, m2), z2 = high<F, G1>(q, h, 2, m, m2), z3 = high<F, G1>(next, h, 3, m, m2);
  for (; y < end; y += ACC, a += stride, part += PART) {
    let s = v128.load(part), t = v128.load(part, 16);
    let k = v128.load32_splat(a, 8);
    s = dot.mac(s, k, x0), t = dot.mac(t, k, z0);
    k = v128.load32_splat(a, 12);
    s = dot.mac(s, k, x1), t = dot.mac(t, k, z1);
    k = v128.load32_splat(a, 24);
    s = dot.mac(s, k, x2), t = dot.mac(t, k, z2);
    k = v128.load32_splat(a, 28);
    s = dot.mac(s, k, x3), t = dot.mac(t, k, z3);
    if (fmt.super_block<F>()) {
      const p = y + behind, sc0 = v128.load(factors), sc1 = v128.load(factors, 16);
      s = i32x4.add(v128.load(p), dot.scaled(s, sc0)), t = i32x4.add(v128.load(p, 16), dot.scaled(t, sc1));
      if (fmt.biased<F>()) {
        const first = start<F, D>(a);
        s = i32x4.sub(s, dot.scaled(first, sc0)), t = i32x4.sub(t, dot.scaled(first, sc1));
      }
      v128.store(p, s);
      v128.store(p, t, 16);
      continue;
    }
    s = dot.sum(s, ones), t = dot.sum(t, ones);
    const da = v128.load32_splat(a, ACT_D);
    const u = fmt.add_block<F>(v128.load(y), s, v128.load(factors), da), v = fmt.add_block<F>(v128.load(y, 16), t, v128.load(factors, 16), da);
    v128.store(y, u);
    v128.store(y, v, 16);
  }
}

/** Codes of the low part of quad t at q, and of its high part. */
// @ts-ignore: decorator
@inline
function low<F, G>(q: usize, h: usize, t: i32, m: v128, m2: v128): v128 {
  return fmt.lo<F>(fmt.load_lo<F, G>(q), fmt.bits<F, G>(h, t), m, m2);
}
// @ts-ignore: decorator
@inline
function high<F, G>(q: usize, h: usize, t: i32, m: v128, m2: v128): v128 {
  return fmt.hi<F>(fmt.load_hi<F, G>(q, fmt.load_lo<F, G>(q)), fmt.bits<F, G>(h, t), m, m2);
}

/** What the sums of a run begin at. */
// @ts-ignore: decorator
@inline
function start<F, D>(a: usize): v128 {
  return changetype<D>(0).init(fmt.offset<F>(i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1))));
}

/** Factors of group G's rows in a run. */
// @ts-ignore: decorator
@inline
function factors<F, G>(w: usize, sc: v128, p: usize): void {
  v128.store(p, fmt.super_block<F>() ? fmt.scale<F, G>(sc) : changetype<F>(0).d<G>(w));
}
