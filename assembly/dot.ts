/**
 * The dot flavours of the packed kernels, one vocabulary: a kernel takes one as the type parameter D.
 * All give the same integers; they differ in what an accumulator lane holds and in how activations lie in memory (act.ts).
 *
 *   DotI16   relaxed i8 x i7 dot, i16 sums (x64: one vpmaddubsw and one vpaddw for 16 products)
 *   DotWide  activations and weights as i16, i32 sums (vpmaddwd and vpaddd for 8): builds without relaxed SIMD
 *   DotI32   relaxed i8 x i7 dot-add, i32 sums (arm64: one sdot for 16 products; x64 with AVX-VNNI: one vpdpbusd; plain AVX2: five operations,
 *            25 against 37 GMAC/s). Builds of their own, because a second copy of the loops in one build is 24 KB; wasm/load.ts chooses.
 *
 * A weight vector w holds 4 rows x 4 consecutive k as unsigned 7-bit codes: row after row for DotI16 and DotI32, and for DotWide
 * the k pairs apart (4 rows x k0 k1, then 4 rows x k2 k3), so that one i32 lane stays one row. `lanes` makes the one from the other.
 */
import { HAS_RELAXED_DOT } from './simd';

/** Bytes of one quantised activation. */
export const ACT_QUANT: usize = HAS_RELAXED_DOT ? 1 : 2;

/** 4 rows x 4 bytes -> the order of the build's weight vectors. */
// @ts-ignore: decorator
@inline
export function lanes(v: v128): v128 {
  if (HAS_RELAXED_DOT) return v;
  return i8x16.shuffle(v, v, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
}

/** The i32 of row `i` (0..3): its four bytes out of a weight vector. */
// @ts-ignore: decorator
@inline
export function row_bytes(v: v128, i: i32): v128 {
  if (HAS_RELAXED_DOT) return i8x16.swizzle(v, i8x16.add(i8x16.splat(<i8>(i << 2)), i32x4.splat(0x03020100)));
  return i8x16.swizzle(v, i8x16.add(i8x16.splat(<i8>(i << 1)), i32x4.splat(0x09080100)));
}

/** Where byte b (0..3) of row r (0..3) is in a weight vector. */
export function byte_of(r: i32, b: i32): usize {
  return <usize>(HAS_RELAXED_DOT ? r << 2 | b : (b & 2) << 2 | r << 1 | b & 1);
}

/** What the flavours with i8 activations share. (Nothing here may be overridden: AssemblyScript would not inline it.) */
@unmanaged
class Bytes {
  /** Four consecutive activations for every row. */
  // @ts-ignore: decorator
  @inline
  a0(p: usize): v128 { return v128.load32_splat(p); }

  // @ts-ignore: decorator
  @inline
  a1(p: usize, a0: v128): v128 { return a0; }

  /** Weight vector of quad t (k = 4t..) to the panel whose steps are 32 bytes: two groups of rows side by side. */
  // @ts-ignore: decorator
  @inline
  put(p: usize, t: usize, w: v128): void { v128.store(p + (t << 5), w); }
}

/**
 * Sums are i16: 8 dots of 4-bit codes fit (16 * 15 * 127), and wider codes too once their centre is taken off first:
 * `init` starts a sum at -centre * (sum of the activations), i16 wraps, and only the result has to fit.
 */
@unmanaged
export class DotI16 extends Bytes {
  /** Sums start here; `pair` = -centre * the two partial sums of the activations, as i16 in every lane pair. */
  // @ts-ignore: decorator
  @inline
  init(pair: v128): v128 { return pair; }

  // @ts-ignore: decorator
  @inline
  dot(s: v128, a0: v128, a1: v128, w: v128): v128 { return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(a0, w)); }

  /** One step of the GEMM's panel: four k. */
  // @ts-ignore: decorator
  @inline
  mac(s: v128, a: v128, w: v128): v128 { return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(a, w)); }

  /** Row sums; ones: eight i16 in a register, where extadd_pairwise would fetch them from memory each time. */
  // @ts-ignore: decorator
  @inline
  sum(s: v128, ones: v128): v128 { return i32x4.dot_i16x8_s(s, ones); }

  /** Row sums times integer scales made by group_scale (packed/w16.ts). */
  // @ts-ignore: decorator
  @inline
  scaled(s: v128, scale: v128): v128 { return i32x4.dot_i16x8_s(s, scale); }

  /** i32 sums, one a lane, go on by signed 8-bit codes times 7-bit activations: a pair's products fit i16, another pair's on top do not. */
  // @ts-ignore: decorator
  @inline
  wide(s: v128, a: v128, w: v128, ones: v128): v128 { return i32x4.add(s, i32x4.dot_i16x8_s(i16x8.relaxed_dot_i8x16_i7x16_s(w, a), ones)); }
}

/** Sums are i32 lanes of rows, activations i8: four products and their sum are one instruction where there is hardware for it. */
@unmanaged
export class DotI32 extends Bytes {
  // @ts-ignore: decorator
  @inline
  init(pair: v128): v128 { return i32x4.extadd_pairwise_i16x8_s(pair); }

  // @ts-ignore: decorator
  @inline
  dot(s: v128, a0: v128, a1: v128, w: v128): v128 { return i32x4.relaxed_dot_i8x16_i7x16_add_s(a0, w, s); }

  // @ts-ignore: decorator
  @inline
  mac(s: v128, a: v128, w: v128): v128 { return i32x4.relaxed_dot_i8x16_i7x16_add_s(a, w, s); }

  // @ts-ignore: decorator
  @inline
  sum(s: v128, ones: v128): v128 { return s; }

  // @ts-ignore: decorator
  @inline
  scaled(s: v128, scale: v128): v128 { return i32x4.mul(s, scale); }

  // @ts-ignore: decorator
  @inline
  wide(s: v128, a: v128, w: v128, ones: v128): v128 { return i32x4.relaxed_dot_i8x16_i7x16_add_s(w, a, s); }
}

/** Sums are i32, activations i16 in memory. */
@unmanaged
export class DotWide {
  // @ts-ignore: decorator
  @inline
  init(pair: v128): v128 { return i32x4.extadd_pairwise_i16x8_s(pair); }

  // @ts-ignore: decorator
  @inline
  a0(p: usize): v128 { return v128.load32_splat(p); }

  // @ts-ignore: decorator
  @inline
  a1(p: usize, a0: v128): v128 { return v128.load32_splat(p, 4); }

  // @ts-ignore: decorator
  @inline
  dot(s: v128, a0: v128, a1: v128, w: v128): v128 {
    s = i32x4.add(s, i32x4.dot_i16x8_s(a0, i16x8.extend_low_i8x16_u(w)));
    return i32x4.add(s, i32x4.dot_i16x8_s(a1, i16x8.extend_high_i8x16_u(w)));
  }

  /** One step of the GEMM's panel: two k. */
  // @ts-ignore: decorator
  @inline
  mac(s: v128, a: v128, w: v128): v128 { return i32x4.add(s, i32x4.dot_i16x8_s(a, w)); }

  // @ts-ignore: decorator
  @inline
  put(p: usize, t: usize, w: v128): void {
    v128.store(p + (t << 6), i16x8.extend_low_i8x16_u(w));
    v128.store(p + (t << 6), i16x8.extend_high_i8x16_u(w), 32);
  }

  // @ts-ignore: decorator
  @inline
  sum(s: v128, ones: v128): v128 { return s; }

  // @ts-ignore: decorator
  @inline
  scaled(s: v128, scale: v128): v128 { return i32x4.mul(s, scale); }
}
