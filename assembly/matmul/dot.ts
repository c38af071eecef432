/**
 * The dot products of the packed kernels: the words in which their loops are written. They give the same integers in every build. What a build
 * has for instructions decides what its activations, its weight vectors and the lanes of a sum look like:
 *
 *   relaxed   i8 activations, i16 sums: relaxed i8 x i7 dot (x64: one vpmaddubsw and one vpaddw for 16 products). A row's sum is two i16 lanes,
 *             one of k % 4 < 2 and one of the others.
 *   dotadd    i8 activations, i32 sums: relaxed i8 x i7 dot-add (arm64: one sdot for 16 products; x64 with AVX-VNNI: one vpdpbusd). Without such an
 *             instruction it takes five operations: 25 GMAC/s where i16 sums have 37. A build of its own, because a second copy of the loops
 *             in one build would be 24 KB; src/wasm/load.ts chooses.
 *   simd      i16 activations, i32 sums: i16 x i16 dot (vpmaddwd and vpaddd for 8 products).
 *
 * A weight vector holds 4 rows (a group) x 4 consecutive k (a quad) as unsigned codes of 7 bits at most. It is row after row, except in the simd build:
 * there it is k 0 and 1 of the 4 rows, then k 2 and 3, so that widening either half to i16 leaves each row in one i32 lane.
 * Sums have one i32 lane for each of the 4 rows, or that lane's two i16.
 *
 * Signed 8-bit codes, which are too wide for these dots: dot_signed.ts.
 */
import { HAS_DOT_ADD, HAS_PAIR_DOT, HAS_RELAXED_DOT, lookup16 } from '../simd';

/** Bytes of one quantised activation. */
export const QUANT_BYTES: usize = HAS_RELAXED_DOT ? 1 : 2;
/** Whether a row's sum is two i16 lanes (relaxed), of which `row_sums` and `scaled` make one i32. */
export const PAIR_SUMS: bool = HAS_PAIR_DOT;

// ---- Weight vectors ----

/** 4 rows x 4 bytes, row after row, in the order of the build's weight vectors. */
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
 * Stores weight vector w as quad t (0..7) of a sub-block in the GEMM's panel at p, whose steps are 32 bytes: the vectors of two groups side by side.
 * A step is one quad, in the simd build two k.
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

/** s plus one step of the panel: w times the activations in x, which are the same in every lane. */
@inline
export function mac(s: v128, x: v128, w: v128): v128 {
  if (HAS_DOT_ADD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x, w, s);
  if (HAS_RELAXED_DOT) return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(x, w));
  return i32x4.add(s, i32x4.dot_i16x8_s(x, w));
}

/** The four activations at p in every lane: all of them, or where they are i16 the first two. */
@inline
export function first_quants(p: usize): v128 {
  return v128.load32_splat(p);
}

/** The other two activations at p, where they are i16. */
@inline
export function last_quants(p: usize, first: v128): v128 {
  return HAS_RELAXED_DOT ? first : v128.load32_splat(p, 4);
}

/** s plus one quad: weight vector w times activations of first_quants and last_quants. */
@inline
export function mac_quad(s: v128, first: v128, last: v128, w: v128): v128 {
  if (HAS_RELAXED_DOT) return mac(s, first, w);
  s = i32x4.add(s, i32x4.dot_i16x8_s(first, i16x8.extend_low_i8x16_u(w)));
  return i32x4.add(s, i32x4.dot_i16x8_s(last, i16x8.extend_high_i8x16_u(w)));
}

/** The same with the activations at p, whose first_quants are x: builds with i16 have no registers to keep the others in. */
@inline
export function mac_quad_at(s: v128, x: v128, p: usize, w: v128): v128 {
  if (HAS_RELAXED_DOT) return mac(s, x, w);
  return mac_quad(s, v128.load32_splat(p), v128.load32_splat(p, 4), w);
}

// ---- Sums ----

/**
 * What sums start at so that `lane_sums` are part of them: two i16 in every i32 lane (act.ts).
 * i16 sums have room for 16 products of 4-bit codes (16 * 15 * 127). They have room for those of 5 bits, and 8 of 6, when the codes' centre is taken
 * off at the start by -centre * lane_sums: i16 wraps, and only the result has to fit.
 */
@inline
export function start_at(lane_sums: v128): v128 {
  return PAIR_SUMS ? lane_sums : i32x4.extadd_pairwise_i16x8_s(lane_sums);
}

/** Sums as i32, one of each row. ones: eight i16 in a register, where extadd_pairwise would fetch them from memory each time. */
@inline
export function row_sums(s: v128, ones: v128): v128 {
  return PAIR_SUMS ? i32x4.dot_i16x8_s(s, ones) : s;
}

/** Sums as i32, each times its row's integer scale, as the words below make scales. */
@inline
export function scaled(s: v128, scale: v128): v128 {
  return PAIR_SUMS ? i32x4.dot_i16x8_s(s, scale) : i32x4.mul(s, scale);
}

// ---- Integer scales of the rows of group G for `scaled`: i32, or i16 twice ----

/** Out of i16 scales of eight rows: 0..7 for groups 0 and 1, 8..15 for groups 2 and 3. */
@inline
export function scales_i16<G>(v: v128): v128 {
  if (!PAIR_SUMS) return (offsetof<G>() & 16) != 0 ? i32x4.extend_high_i16x8_s(v) : i32x4.extend_low_i16x8_s(v);
  return (offsetof<G>() & 16) != 0 ? i16x8.shuffle(v, v, 4, 4, 5, 5, 6, 6, 7, 7) : i16x8.shuffle(v, v, 0, 0, 1, 1, 2, 2, 3, 3);
}

/** Out of signed bytes of sixteen rows in order. */
@inline
export function scales_i8<G>(v: v128): v128 {
  return scales_i16<G>(offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_s(v) : i16x8.extend_low_i8x16_s(v));
}

/** For each group: its rows' bytes to the high bytes of both i16 of their lanes. */
const HIGH: usize = memory.data<u8>(
  [
    128, 0, 128, 0, 128, 1, 128, 1, 128, 2, 128, 2, 128, 3, 128, 3, 128, 4, 128, 4, 128, 5, 128, 5, 128, 6, 128, 6, 128, 7, 128, 7, 128, 8,
    128, 8, 128, 9, 128, 9, 128, 10, 128, 10, 128, 11, 128, 11, 128, 12, 128, 12, 128, 13, 128, 13, 128, 14, 128, 14, 128, 15, 128, 15,
  ],
  16,
);

/** The same, and 256 times too large where that takes one operation instead of two (d_of_large): for sums that have room for it. */
@inline
export function scales_i8_large<G>(v: v128): v128 {
  return PAIR_SUMS ? lookup16(v, v128.load(HIGH + offsetof<G>())) : scales_i8<G>(v);
}

/** What d, four f32, is for integer sums with scales of scales_i8_large. */
@inline
export function d_of_large(d: v128): v128 {
  return PAIR_SUMS ? f32x4.mul(d, f32x4.splat(1.0 / 256)) : d;
}

/** What the high i16 of a lane takes of a byte that its low one takes: the same, or nothing where scales are i32. */
const TWICE: u8 = HAS_DOT_ADD ? 128 : 0;

/** For each group: byte 4r + g of row r to both i16 of its lane, in dotadd builds to the low one; nothing to their high bytes. */
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

/** Out of unsigned bytes, of row r of group g in byte 4r + g: those of the group whose number is g / 16, as i32 or, except in dotadd builds, as i16 twice. */
@inline
export function group_scales(v: v128, g: usize): v128 {
  return lookup16(v, v128.load(INTERLEAVED + g));
}

/** Those of group G for `scaled`, out of numbers whose bits 6 and 7 are 0. */
@inline
export function scales_u6<G>(v: v128): v128 {
  if (HAS_RELAXED_DOT) return group_scales(v, offsetof<G>());
  return i32x4.shr_u(i32x4.shl(v, 26 - <i32>(offsetof<G>() >> 1)), 26);
}
