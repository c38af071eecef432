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
import { ACT_BLOCK, ACT_D, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import * as fmt from './packed/format';
import { ACC, G0, G1, G2, G3 } from './packed/group';
import { HAS_RELAXED_DOT, held_ones, madd } from './simd';

/** Beyond it a panel is as fast, where it is not faster. */
const NARROW: i32 = 16;

/** Bytes of one column's integer sums between the halves. */
const PART: usize = 32;
/** Factors of a run: d of 16 rows, then what the minima are. */
const MINIMA: usize = 64;
const PARTS: usize = 128;

/** Whether a product of ncols columns is one for gemm_narrow; builds without relaxed SIMD have too few registers for their 16-bit codes. */
// @ts-ignore: decorator
@inline
export function is_narrow<F>(ncols: i32): bool {
  return fmt.narrow<F>() && HAS_RELAXED_DOT && ncols > 1 && ncols <= NARROW;
}

/** acc[column][0..15] += 16 packed rows at w . the column's activations; n blocks. scratch: PARTS + ncols * PART bytes. */
export function gemm_narrow<F, D>(w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  const f = changetype<F>(0), end = acc + <usize>ncols * ACC;
  for (; n > 0; n--) {
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      const sc = fmt.sc<F>(w, sub), mn = fmt.mn<F>(w, sub);
      factors<F, G0>(w, sc, mn, scratch);
      factors<F, G1>(w, sc, mn, scratch + 16);
      factors<F, G2>(w, sc, mn, scratch + 32);
      factors<F, G3>(w, sc, mn, scratch + 48);
      const q = f.quads(w, sub), h = fmt.high<F>(w, sub);
      for (let g: usize = 0; g < 64; g += 32) {
        first_half<F, D>(q + g, h + g, a, stride, acc + g, end, scratch + PARTS);
        second_half<F, D>(q + g, h + g, a, stride, acc + g, end, scratch + PARTS, scratch + g);
      }
      a += ACT_BLOCK;
    }
    w += f.bytes();
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
    let s = dot.init(fmt.offset<F>(i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1)))), t = s;
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

/** Quads 2 and 3 onto them, and the run's f32 step. */
// @ts-ignore: decorator
@inline
function second_half<F, D>(q: usize, h: usize, a: usize, stride: usize, y: usize, end: usize, part: usize, factors: usize): void {
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
    s = dot.sum(s, ones), t = dot.sum(t, ones);
    if (fmt.biased<F>()) {
      const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1))), 4);
      s = i32x4.sub(s, back), t = i32x4.sub(t, back);
    }
    const da = v128.load32_splat(a, ACT_D);
    let u = madd(f32x4.convert_i32x4_s(s), f32x4.mul(v128.load(factors), da), v128.load(y));
    let v = madd(f32x4.convert_i32x4_s(t), f32x4.mul(v128.load(factors, 16), da), v128.load(y, 16));
    if (fmt.has_min<F>()) {
      const dsum = v128.load32_splat(a, ACT_DSUM);
      u = madd(v128.load(factors, MINIMA), dsum, u);
      v = madd(v128.load(factors, MINIMA + 16), dsum, v);
    }
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

/** Factors of group G's rows in a run. */
// @ts-ignore: decorator
@inline
function factors<F, G>(w: usize, sc: v128, mn: v128, p: usize): void {
  v128.store(p, fmt.factor<F, G>(changetype<F>(0).d<G>(w), sc));
  if (fmt.has_min<F>()) v128.store(p, fmt.factor<F, G>(fmt.dmin<F, G>(w), mn), MINIMA);
}
