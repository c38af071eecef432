/**
 * The words in which gemv, gemm, repack and packed_row ask a block format F (a class in packed/<type>.ts) about packed weights.
 * A format has only what differs from q4_0; for the rest these words give the default. All of it is inlined and static.
 * (No base class with these defaults: AssemblyScript does not inline a method that some other class overrides.)
 *
 *   weight = d * sc * (code - center) + dmin * mn          codes are unsigned, 7 bits at most (`wide`: signed, 8 bits, flipped in some builds); sc and mn are integers, in super-blocks
 *
 * Codes come in quads: quad t (0..3) of a run of 32 is one vector for each group of 4 rows, its low part k = 4t .. 4t + 3, its high part
 * 16 further on. Where scales are for 16 weights (w16), the two halves take the place of the two parts, and w16.ts says how they are asked for.
 *
 * Every format has: bytes() of a packed block, quads(w, sub) the address of a run's codes, d<G>(w) the f32 scales of group G's rows,
 * pack(src, stride, w) a block of 16 plain rows to w. It may have before_pack(from, to), which changes 16 plain rows first, and column_loop(), a loop
 * of its own for one column (loops.ts).
 */
import { ACT_HALVES, ACT_K, ACT_NARROW, ACT_SIGNS, TYPE_ACT } from '../act';
import { HAS_PAIR_DOT, HAS_RELAXED_DOT, madd } from '../simd';
import { low_nibbles } from './group';
import { six_s, six_u } from './six_bits';
import { group_scale } from './w16';

/** A block is 8 runs of 32 weights with integer scales (the K formats and iq4_xs): one integer sum for all, activations of TYPE_ACT_K. */
// @ts-ignore: decorator
@inline
export function super_block<F>(): bool {
  return isDefined(changetype<F>(0).super_block);
}

/** Runs of 32 weights in a block. */
// @ts-ignore: decorator
@inline
export function subs<F>(): i32 {
  return super_block<F>() ? 8 : 1;
}

/** Vectors of 16 f16 at the head of a packed block, which must be finite; formats with scales of another type have none. */
// @ts-ignore: decorator
@inline
export function heads<F>(): i32 {
  if (isDefined(changetype<F>(0).heads)) return changetype<F>(0).heads();
  return isDefined(changetype<F>(0).dmin) ? 2 : 1;
}

/** Integer scales for every 16 weights. */
// @ts-ignore: decorator
@inline
export function w16<F>(): bool {
  return isDefined(changetype<F>(0).w16);
}

/** With w16: bits of a code as it is packed; up to 4, both halves of a run share a vector, and of 2, two quads do (w16.ts). */
// @ts-ignore: decorator
@inline
export function width<F>(): i32 {
  return changetype<F>(0).width();
}

/** With w16: a super-block's integer sum has room for scales that are 256 times too large (group_scale). */
// @ts-ignore: decorator
@inline
export function small_sums<F>(): bool {
  return isDefined(changetype<F>(0).small_sums);
}

/** Few columns have a loop of their own (gemm_narrow.ts): for the usual formats, since each costs 1.5 KB of code. Not with w16, 8-bit codes or f32 minima. */
// @ts-ignore: decorator
@inline
export function narrow<F>(): bool {
  return isDefined(changetype<F>(0).narrow);
}

/** Signed 8-bit codes: too wide for the operand of the relaxed dot that other codes are. */
// @ts-ignore: decorator
@inline
export function wide<F>(): bool {
  return isDefined(changetype<F>(0).wide);
}

/** `offset` took 16 * sum off only for i16's sake: it is added again in i32. */
// @ts-ignore: decorator
@inline
export function biased<F>(): bool {
  return isDefined(changetype<F>(0).biased);
}

/** The type of activations that products take. */
// @ts-ignore: decorator
@inline
export function act_type<F>(): u32 {
  const type: u32 = super_block<F>() ? TYPE_ACT + ACT_K : TYPE_ACT;
  if (HAS_RELAXED_DOT && narrow<F>()) return type + ACT_NARROW;
  if (HAS_RELAXED_DOT && wide<F>()) return type + ACT_SIGNS;
  return isDefined(changetype<F>(0).halves) && changetype<F>(0).halves() ? type + ACT_HALVES : type;
}

// @ts-ignore: decorator
@inline
export function has_min<F>(): bool {
  return isDefined(changetype<F>(0).dmin);
}

/** Two vectors that stay in registers, for lo and hi. */
// @ts-ignore: decorator
@inline
export function mask<F>(): v128 {
  if (isDefined(changetype<F>(0).mask)) return changetype<F>(0).mask();
  return low_nibbles();
}

// @ts-ignore: decorator
@inline
export function mask2<F>(): v128 {
  if (isDefined(changetype<F>(0).mask2)) return changetype<F>(0).mask2();
  return i32x4.splat(0);
}

/** From one quad to the next. */
// @ts-ignore: decorator
@inline
export function quad_bytes<F>(): usize {
  if (isDefined(changetype<F>(0).quad_bytes)) return changetype<F>(0).quad_bytes();
  return 64;
}

/** The quad at q: what holds its low part. */
// @ts-ignore: decorator
@inline
export function load_lo<F, G>(q: usize): v128 {
  return v128.load(q, offsetof<G>());
}

/** What holds its high part: v, unless they are apart. */
// @ts-ignore: decorator
@inline
export function load_hi<F, G>(q: usize, v: v128): v128 {
  if (isDefined(changetype<F>(0).load_hi)) return changetype<F>(0).load_hi<G>(q);
  return v;
}

/** Where further bits of a run's codes are, and those of quad t as lo and hi want them. */
// @ts-ignore: decorator
@inline
export function high<F>(w: usize, sub: i32): usize {
  if (isDefined(changetype<F>(0).high)) return changetype<F>(0).high(w, sub);
  return 0;
}

// @ts-ignore: decorator
@inline
export function bits<F, G>(h: usize, t: i32): v128 {
  if (isDefined(changetype<F>(0).bits)) return changetype<F>(0).bits<G>(h, t);
  return i32x4.splat(0);
}

/** Those of the next quad. */
// @ts-ignore: decorator
@inline
export function next_bits<F>(b: v128): v128 {
  if (isDefined(changetype<F>(0).bits)) return i16x8.shr_u(b, 1);
  return b;
}

/** Codes of the low part. */
// @ts-ignore: decorator
@inline
export function lo<F>(v: v128, h: v128, m: v128, m2: v128): v128 {
  if (isDefined(changetype<F>(0).lo)) return changetype<F>(0).lo(v, h, m, m2);
  return v128.and(v, m);
}

/** Codes of the high part. */
// @ts-ignore: decorator
@inline
export function hi<F>(v: v128, h: v128, m: v128, m2: v128): v128 {
  if (isDefined(changetype<F>(0).hi)) return changetype<F>(0).hi(v, h, m, m2);
  return v128.and(i16x8.shr_u(v, 4), m);
}

/** f32 that mn is multiplied with, sign included; or what is added to every weight. */
// @ts-ignore: decorator
@inline
export function dmin<F, G>(w: usize): v128 {
  if (isDefined(changetype<F>(0).dmin)) return changetype<F>(0).dmin<G>(w);
  return f32x4.splat(0);
}

// Super-blocks: their integer scales and minima.

/** Scales of run i as `scale` takes them; with w16: of half-run i, one signed byte a row. */
// @ts-ignore: decorator
@inline
export function sc<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).sc)) return changetype<F>(0).sc(w, i);
  return i32x4.splat(0);
}

/** Those of group G as `scaled` (dot.ts) wants them; with 8-bit codes as i32. */
// @ts-ignore: decorator
@inline
export function scale<F, G>(v: v128): v128 {
  if (w16<F>()) return group_scale<F, G>(v);
  return wide<F>() ? six_s<G>(v) : six_u<G>(v);
}

/** Minima: with w16 of half-run i, one byte a row; else vector i of k_scales.ts. */
// @ts-ignore: decorator
@inline
export function mn<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).mn)) return changetype<F>(0).mn(w, i);
  return i32x4.splat(0);
}

/** d of group G for integer sums as `scale` makes them. */
// @ts-ignore: decorator
@inline
export function block_d<F, G>(w: usize): v128 {
  const d = changetype<F>(0).d<G>(w);
  return HAS_PAIR_DOT && small_sums<F>() ? f32x4.mul(d, f32x4.splat(1.0 / 256)) : d;
}

/** dmin of group G for sums of minima as k_min makes them; with w16 as they are. */
// @ts-ignore: decorator
@inline
export function block_dmin<F, G>(w: usize): v128 {
  const d = dmin<F, G>(w);
  return !w16<F>() && (offsetof<G>() & 16) != 0 ? f32x4.mul(d, f32x4.splat(1.0 / 256)) : d;
}

// How a block ends.

/** A block's integer sums onto y. In blocks of 32 both scales meet while the sums are made, which is 2 to 4 % faster (q4_0 on Node 24). */
// @ts-ignore: decorator
@inline
export function add_block<F>(y: v128, i: v128, d: v128, da: v128): v128 {
  if (!super_block<F>()) return madd(f32x4.convert_i32x4_s(i), f32x4.mul(d, da), y);
  return madd(f32x4.mul(f32x4.convert_i32x4_s(i), d), da, y); // d stays a normal number where it is scaled, d * da might not
}

/**
 * The same with minima, dmin times `sum`: of the activations, or in super-blocks of minima times activations. Both parts meet before the activations'
 * scale: what it multiplies is far from f32's borders, so nothing leaves f32 that the block's part of the result does not.
 */
// @ts-ignore: decorator
@inline
export function add_block_min(y: v128, i: v128, d: v128, sum: v128, dmin: v128, da: v128): v128 {
  return madd(madd(f32x4.convert_i32x4_s(i), d, f32x4.mul(sum, dmin)), da, y);
}

/** Group G's integer sums of a super-block at w, and n of its minima, onto y. */
// @ts-ignore: decorator
@inline
export function add_super_block<F, G>(y: v128, i: v128, n: v128, w: usize, da: v128): v128 {
  return has_min<F>() ? add_block_min(y, i, block_d<F, G>(w), f32x4.convert_i32x4_s(n), block_dmin<F, G>(w), da) : add_block<F>(y, i, block_d<F, G>(w), da);
}

/** The scale of one row's run i (with w16 half-run) in all lanes; 1 if the format has none. And its minimum. */
// @ts-ignore: decorator
@inline
export function scale_of_row<F>(w: usize, i: i32, row: usize): v128 {
  if (!super_block<F>()) return f32x4.splat(1);
  if (w16<F>()) return f32x4.splat(<f32>byte_of(changetype<F>(0).sc(w, i), row));
  return f32x4.splat(<f32>changetype<F>(0).scale_of(w, i, row));
}

// @ts-ignore: decorator
@inline
export function min_of_row<F>(w: usize, i: i32, row: usize): v128 {
  if (!super_block<F>() || !has_min<F>()) return f32x4.splat(1);
  if (w16<F>()) return f32x4.splat(<f32>byte_of(changetype<F>(0).mn(w, i), row));
  return f32x4.splat(<f32>changetype<F>(0).min_of(w, i, row));
}

// @ts-ignore: decorator
@inline
function byte_of(v: v128, i: usize): i32 {
  return i8x16.extract_lane_s(i8x16.swizzle(v, i8x16.splat(<i8>i)), 0);
}

// @ts-ignore: decorator
@inline
export function has_offset<F>(): bool {
  return isDefined(changetype<F>(0).offset);
}

/** center * pair in i16. */
// @ts-ignore: decorator
@inline
export function offset<F>(pair: v128): v128 {
  if (isDefined(changetype<F>(0).offset)) return changetype<F>(0).offset(pair);
  return i32x4.splat(0);
}

// @ts-ignore: decorator
@inline
export function center<F>(): f32 {
  if (isDefined(changetype<F>(0).center)) return changetype<F>(0).center();
  return 0;
}
