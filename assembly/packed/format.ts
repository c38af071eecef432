/**
 * The words in which gemv, gemm, repack and packed_row ask a block format F (a class in packed/<type>.ts) about packed weights.
 * A format has only what differs from q4_0; for the rest these words give the default. All of it is inlined and static.
 * (No base class with these defaults: AssemblyScript does not inline a method that some other class overrides.)
 *
 *   weight = d * sc * (code - center) + dmin * mn          codes are unsigned, 7 bits at most (`wide`: signed, 8 bits)
 *
 * Codes come in quads: quad t (0..3) of a run of 32 is one vector for each group of 4 rows, its low part k = 4t .. 4t + 3, its high part
 * 16 further on. Where scales are for 16 weights (w16), the two halves take the place of the two parts, and w16.ts says how they are asked for.
 *
 * Every format has: bytes() of a packed block, quads(w, sub) the address of a run's codes, d<G>(w) the f32 scales of group G's rows,
 * pack(src, stride, w) a block of 16 plain rows to w.
 */
import { low_nibbles } from './group';
import { six_at, six_s, six_u } from './six_bits';

/** Runs of 32 weights in a block: 8 in a K super-block. */
// @ts-ignore: decorator
@inline
export function subs<F>(): i32 {
  return isDefined(changetype<F>(0).super_block) ? 8 : 1;
}

/** Vectors of 16 f16 at the head of a packed block. */
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

/** With w16: two quads of both halves in a vector, two bits a code (q2_K). */
// @ts-ignore: decorator
@inline
export function two_bits<F>(): bool {
  return isDefined(changetype<F>(0).two_bits);
}

/** With w16: the second half has vectors of its own, 192 bytes further on. */
// @ts-ignore: decorator
@inline
export function apart<F>(): bool {
  return isDefined(changetype<F>(0).apart);
}

/** Few columns have a loop of their own (gemm_narrow.ts): for the usual formats, since each costs 1.5 KB of code. Not with w16 or 8-bit codes. */
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

// @ts-ignore: decorator
@inline
export function has_min<F>(): bool {
  return isDefined(changetype<F>(0).dmin);
}

/** Whether d has integer factors. */
// @ts-ignore: decorator
@inline
export function has_sc<F>(): bool {
  return isDefined(changetype<F>(0).sc);
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

/** Factors of run i as `factor` takes them (six_bits.ts); with w16: of half-run i, one signed byte a row. */
// @ts-ignore: decorator
@inline
export function sc<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).sc)) return changetype<F>(0).sc(w, i);
  return i32x4.splat(0);
}

// @ts-ignore: decorator
@inline
export function mn<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).mn)) return changetype<F>(0).mn(w, i);
  return i32x4.splat(0);
}

/** Whether factors have a sign. */
// @ts-ignore: decorator
@inline
function signed<F>(): bool {
  return isDefined(changetype<F>(0).signed);
}

/** d times the factors of group G, if the format has any (not with w16). */
// @ts-ignore: decorator
@inline
export function factor<F, G>(d: v128, v: v128): v128 {
  if (!has_sc<F>()) return d;
  return f32x4.mul(d, f32x4.convert_i32x4_s(signed<F>() ? six_s<G>(v) : six_u<G>(v)));
}

/** The factor of one row in all lanes; 1 if the format has none. */
// @ts-ignore: decorator
@inline
export function factor_of_row<F>(v: v128, row: usize): v128 {
  if (!has_sc<F>()) return f32x4.splat(1);
  const x = i8x16.extract_lane_s(i8x16.swizzle(v, i8x16.splat(<i8>(w16<F>() ? row : six_at(row)))), 0);
  return f32x4.splat(<f32>(w16<F>() ? x : signed<F>() ? x >> 2 : (x & 255) >> 2));
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
