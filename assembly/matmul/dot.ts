/**
 * Dot products of the packed kernels: the vocabulary of their loops. Every build gives the same
 * integers. The instructions of a build decide the form of its activations, its weight vectors and
 * the lanes of a sum:
 *
 *   relaxed | The activations are i8 and the sums i16: relaxed i8 x i7 dot (on x64, one vpmaddubsw
 *           | and one vpaddw for 16 products). A row's sum is two i16 lanes: k % 4 < 2 and
 *           | k % 4 >= 2.
 *   dotadd  | The activations are i8 and the sums i32: relaxed i8 x i7 dot-add (on arm64, one sdot
 *           | for 16 products; on x64 with AVX-VNNI, one vpdpbusd). CPUs without such an
 *           | instruction need five operations, so src/wasm/load.ts chooses. It is a build of its
 *           | own, because a second copy of the loops in one build would be 24 KB.
 *   simd    | The activations are i16 and the sums i32: i16 x i16 dot (vpmaddwd and vpaddd for 8
 *           | products).
 *
 * A weight vector holds 4 rows (a group) x 4 consecutive k (a quad) as unsigned codes of at most 7
 * bits. The order is row after row, except in the simd build: there k 0 and 1 of the 4 rows come
 * first, then k 2 and 3. So widening either half to i16 leaves each row in one i32 lane. Sums have
 * one i32 lane for each of the 4 rows, or two i16 in that lane.
 *
 * Signed 8-bit codes are too wide for these dots: see dot_signed.ts.
 */
import { HAS_DOT_ADD, HAS_PAIR_DOT, HAS_RELAXED_DOT, lookup16 } from '../simd';

/** Bytes of one quantised activation. */
export const QUANT_BYTES: usize = HAS_RELAXED_DOT ? 1 : 2;
/** True if a row's sum is two i16 lanes (relaxed). `row_sums` and `scaled` add them to one i32. */
export const PAIR_SUMS: bool = HAS_PAIR_DOT;

// ---- Weight vectors ----

/** 4 rows x 4 bytes, row after row, put into the order of the build's weight vectors. */
@inline
export function weight_order(v: v128): v128 {
  if (HAS_RELAXED_DOT) return v;
  return i8x16.shuffle(v, v, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
}

/** Byte offset of k (0..3) of row r (0..3) in a weight vector. */
export function code_offset(r: i32, k: i32): usize {
  return <usize>(HAS_RELAXED_DOT ? (r << 2) | k : ((k & 2) << 2) | (r << 1) | (k & 1));
}

/**
 * Stores weight vector w as quad t (0..7) of a sub-block in the GEMM's panel at p. A step of the
 * panel is 32 bytes: the vectors of two groups side by side. A step is one quad, in the simd build
 * two k.
 */
@inline
export function store_quad(p: usize, t: usize, w: v128): void {
  if (HAS_RELAXED_DOT) {
    v128.store(p + (t << 5), w);
  } else {
    v128.store(p + (t << 6), i16x8.extend_low_i8x16_u(w));
    v128.store(p + (t << 6), i16x8.extend_high_i8x16_u(w), 32);
  }
}

// ---- Products ----

/**
 * Adds one step of the panel to s: w times the activations in x, which are the same in every lane.
 */
@inline
export function mac(s: v128, x: v128, w: v128): v128 {
  if (HAS_DOT_ADD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x, w, s);
  if (HAS_RELAXED_DOT) return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(x, w));
  return i32x4.add(s, i32x4.dot_i16x8_s(x, w));
}

/** The four activations at p, in every lane; with i16 activations the first two. */
@inline
export function first_quants(p: usize): v128 {
  return v128.load32_splat(p);
}

/** With i16 activations, activations 2 and 3 at p; else `first`, which has all four. */
@inline
export function last_quants(p: usize, first: v128): v128 {
  return HAS_RELAXED_DOT ? first : v128.load32_splat(p, 4);
}

/** Adds one quad to s: weight vector w times the activations of first_quants and last_quants. */
@inline
export function mac_quad(s: v128, first: v128, last: v128, w: v128): v128 {
  if (HAS_RELAXED_DOT) return mac(s, first, w);
  s = i32x4.add(s, i32x4.dot_i16x8_s(first, i16x8.extend_low_i8x16_u(w)));
  return i32x4.add(s, i32x4.dot_i16x8_s(last, i16x8.extend_high_i8x16_u(w)));
}

/**
 * Adds one quad to s: weight vector w times the activations at p, with x = first_quants(p). Builds
 * with i16 activations load the other two again, because they lack registers.
 */
@inline
export function mac_quad_at(s: v128, x: v128, p: usize, w: v128): v128 {
  if (HAS_RELAXED_DOT) return mac(s, x, w);
  return mac_quad(s, v128.load32_splat(p), v128.load32_splat(p, 4), w);
}

// ---- Sums ----

/**
 * Turns `lane_sums`, two i16 in every i32 lane (act.ts), into the start value of sums.
 *
 * i16 sums have room for 16 products of 4-bit codes (16 * 15 * 127). They also have room for 16
 * products of 5-bit codes, or 8 of 6-bit codes, if the codes' centre is subtracted at the start, as
 * -centre * lane_sums. i16 wraps, and only the result has to fit.
 */
@inline
export function start_at(lane_sums: v128): v128 {
  return PAIR_SUMS ? lane_sums : i32x4.extadd_pairwise_i16x8_s(lane_sums);
}

/**
 * Sums as i32, one for each row. ones: eight i16 in a register; extadd_pairwise would load them
 * from memory each time.
 */
@inline
export function row_sums(s: v128, ones: v128): v128 {
  return PAIR_SUMS ? i32x4.dot_i16x8_s(s, ones) : s;
}

/** Sums as i32, each times its row's integer scale. The functions below make the scales. */
@inline
export function scaled(s: v128, scale: v128): v128 {
  return PAIR_SUMS ? i32x4.dot_i16x8_s(s, scale) : i32x4.mul(s, scale);
}

// ---- Integer scales of the rows of group G for `scaled`: an i32, or the same i16 twice ----

/** From i16 scales of eight rows: rows 0..7 for groups 0 and 1, rows 8..15 for groups 2 and 3. */
@inline
export function scales_i16<G>(v: v128): v128 {
  if (!PAIR_SUMS) return (offsetof<G>() & 16) != 0 ? i32x4.extend_high_i16x8_s(v) : i32x4.extend_low_i16x8_s(v);
  return (offsetof<G>() & 16) != 0 ? i16x8.shuffle(v, v, 4, 4, 5, 5, 6, 6, 7, 7) : i16x8.shuffle(v, v, 0, 0, 1, 1, 2, 2, 3, 3);
}

/** From signed bytes of sixteen rows in order. */
@inline
export function scales_i8<G>(v: v128): v128 {
  return scales_i16<G>(offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_s(v) : i16x8.extend_low_i8x16_s(v));
}

/** Shuffle for each group: its rows' bytes to the high bytes of both i16 of their lanes. */
const HIGH: usize = memory.data<u8>(
  [
    128, 0, 128, 0, 128, 1, 128, 1, 128, 2, 128, 2, 128, 3, 128, 3, 128, 4, 128, 4, 128, 5, 128, 5, 128, 6, 128, 6, 128, 7, 128, 7, 128, 8,
    128, 8, 128, 9, 128, 9, 128, 10, 128, 10, 128, 11, 128, 11, 128, 12, 128, 12, 128, 13, 128, 13, 128, 14, 128, 14, 128, 15, 128, 15,
  ],
  16,
);

/**
 * As scales_i8, but 256 times too large in builds with i16 sums, where that takes one operation
 * instead of two. For formats whose sums have room for it; d_of_large corrects d.
 */
@inline
export function scales_i8_large<G>(v: v128): v128 {
  return PAIR_SUMS ? lookup16(v, v128.load(HIGH + offsetof<G>())) : scales_i8<G>(v);
}

/** d, four f32, corrected for integer sums with scales of scales_i8_large. */
@inline
export function d_of_large(d: v128): v128 {
  return PAIR_SUMS ? f32x4.mul(d, f32x4.splat(1.0 / 256)) : d;
}

/**
 * Shuffle index for the high i16 of a lane: the byte of the low i16 again, or zero if scales are
 * i32.
 */
const TWICE: u8 = HAS_DOT_ADD ? 128 : 0;

/**
 * Shuffle for each group g: byte 4r + g of row r to the low byte of both i16 of its lane (in dotadd
 * builds of the low i16 only). High bytes are zero.
 */
// prettier-ignore
const INTERLEAVED: usize = memory.data<u8>(
  [
    0, 128, TWICE | 0, 128, 4, 128, TWICE | 4, 128, 8, 128, TWICE | 8, 128, 12, 128, TWICE | 12, 128,
    1, 128, TWICE | 1, 128, 5, 128, TWICE | 5, 128, 9, 128, TWICE | 9, 128, 13, 128, TWICE | 13, 128,
    2, 128, TWICE | 2, 128, 6, 128, TWICE | 6, 128, 10, 128, TWICE | 10, 128, 14, 128, TWICE | 14, 128,
    3, 128, TWICE | 3, 128, 7, 128, TWICE | 7, 128, 11, 128, TWICE | 11, 128, 15, 128, TWICE | 15, 128,
  ],
  16,
);

/**
 * Scales of group g / 16 from unsigned bytes, byte 4r + g of which belongs to row r of group g. As
 * i32 in dotadd builds, else as i16 twice.
 */
@inline
export function group_scales(v: v128, g: usize): v128 {
  return lookup16(v, v128.load(INTERLEAVED + g));
}

/** Scales of group G for `scaled`, from 6-bit numbers in that order whose bits 6 and 7 are 0. */
@inline
export function scales_u6<G>(v: v128): v128 {
  if (HAS_RELAXED_DOT) return group_scales(v, offsetof<G>());
  return i32x4.shr_u(i32x4.shl(v, 26 - <i32>(offsetof<G>() >> 1)), 26);
}
