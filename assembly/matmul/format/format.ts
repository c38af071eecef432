/**
 * Questions that loops ask about a packed format F, a class in format/<type>.ts. The description of
 * its codes comes from the format's row in src/type-traits.ts, as a base class (facts.ts). The
 * format itself says where they lie, as far as that differs from the defaults here. All of it is
 * static and inlined. (There is no base class with the defaults: AssemblyScript does not inline a
 * method that some class overrides.)
 *
 *   weight = d * sc * (code - centre) + dmin * mn
 *
 *   sc and mn are integers, which only super-blocks have
 *
 * A sub-block is 32 consecutive weights of a row. A block has one, a super-block eight; formats
 * with few_bits say how many. Its halves are 16 weights each, in four quads of 4: quad t of half h
 * is k = 16h + 4t .. + 3. Codes come as weight vectors (dot.ts): one quad of a group's four rows.
 *
 * A format must have two methods. `codes_at(w, sub)` is the address of a sub-block's codes; `w` is
 * the address of a packed block, here and below, and `sub` is 0..7. `pack(src, stride, w)` packs a
 * block of each of 16 plain rows. (Grids have other methods for packing: pack_grid.ts.) Fields like
 * super_block, s16 and has_min are markers: declaring the field is enough, and isDefined tests it.
 *
 * A packed block begins with its f16: d of the 16 rows, and then dmin. The layout of codes has two
 * forms. Either vectors hold a quad's codes of both halves, nibbles as in q4_0 unless first and
 * second differ; or half_codes alone reads them.
 */
import { PAIR_SUMS, d_of_large, scales_i8, scales_i8_large, scales_u6 } from '../dot';
import { bytes_0x1f, low_nibbles } from './constants';
import { load_scales } from './group';
import { fourth_quad } from './s16';
import { scales_s6 } from './six_bits';

// ---- Facts: stated by the format ----

/** f32, f16 and bf16 (float.ts). No other question applies to them. */
@inline
export function is_float<F>(): bool {
  return isDefined(changetype<F>(0).number);
}

/**
 * A block is 8 sub-blocks with integer scales (K formats, iq4_xs), whose integer products are one
 * sum.
 */
@inline
export function super_block<F>(): bool {
  return isDefined(changetype<F>(0).super_block) || of_grid<F>();
}

/** Codes have 2 bits, without integer scales (few_bits.ts). The format has subs(). */
@inline
export function two_bits<F>(): bool {
  return isDefined(changetype<F>(0).two_bits);
}

/** Codes are digits of base 3, five in a byte (tq1_0.ts). */
@inline
export function trits<F>(): bool {
  return isDefined(changetype<F>(0).trits);
}

/** Codes of 2 bits, of base 3, or of one bit. */
@inline
export function few_bits<F>(): bool {
  return two_bits<F>() || trits<F>() || isDefined(changetype<F>(0).one_bit);
}

/** Codes are entries of a grid (grid.ts), in super-blocks. Only the questions about grids apply. */
@inline
export function grid<F>(): bool {
  return isDefined(changetype<F>(0).grid);
}

/** Codes are indices into levels (levels.ts), in super-blocks. No other question applies. */
@inline
export function levels<F>(): bool {
  return isDefined(changetype<F>(0).levels);
}

/** Weights are values of a grid, in either form. */
@inline
export function of_grid<F>(): bool {
  return grid<F>() || levels<F>();
}

/** An entry of the grid is four values, not eight. */
@inline
export function fours<F>(): bool {
  return isDefined(changetype<F>(0).fours);
}

/** Values of the grid get signs. */
@inline
export function has_signs<F>(): bool {
  return isDefined(changetype<F>(0).has_signs);
}

/** All values of the grid are even. */
@inline
export function even<F>(): bool {
  return isDefined(changetype<F>(0).even);
}

/** Number of sub-blocks in a block. */
@inline
export function subs<F>(): i32 {
  if (isDefined(changetype<F>(0).subs)) return changetype<F>(0).subs();
  return super_block<F>() ? 8 : 1;
}

/** Super-blocks: each half of a sub-block has a scale of its own, and a minimum. */
@inline
export function s16<F>(): bool {
  return isDefined(changetype<F>(0).s16);
}

/** As s16, but scales are f32 (nvfp4): a block's sums are f32 too, and it has no d. */
@inline
export function f32_scales<F>(): bool {
  return isDefined(changetype<F>(0).f32_scales);
}

/**
 * Bits of a code. With s16, codes of up to 4 bits share a byte with codes of the other half
 * (s16.ts).
 */
@inline
export function width<F>(): i32 {
  return changetype<F>(0).width();
}

/**
 * Codes are signed and have 8 bits: too wide for the 7-bit operand of the relaxed dot
 * (dot_signed.ts).
 */
@inline
export function eight_bits<F>(): bool {
  return width<F>() == 8;
}

/** The largest code. */
@inline
export function largest<F>(): i32 {
  if (isDefined(changetype<F>(0).largest)) return changetype<F>(0).largest();
  return (1 << width<F>()) - 1;
}

/** Centre, subtracted from every code. */
@inline
export function centre<F>(): i32 {
  if (isDefined(changetype<F>(0).centre)) return changetype<F>(0).centre();
  return 0;
}

/** Weights have a minimum. */
@inline
export function has_min<F>(): bool {
  return isDefined(changetype<F>(0).has_min);
}

/** f32 scales of group G's rows. */
@inline
export function d<F, G>(w: usize): v128 {
  if (isDefined(changetype<F>(0).d)) return changetype<F>(0).d<G>(w);
  return load_scales<G>(w);
}

/**
 * f32 factor of mn, sign included. In blocks of 32, which have no mn, it is added to every weight.
 */
@inline
export function dmin<F, G>(w: usize): v128 {
  if (!has_min<F>()) return f32x4.splat(0);
  return super_block<F>() ? f32x4.neg(load_scales<G>(w + 32)) : load_scales<G>(w + 32);
}

/** Vectors of 16 f16 (d, dmin) at the start of a packed block. All of them must be finite. */
@inline
export function f16_vectors<F>(): i32 {
  if (isDefined(changetype<F>(0).f16_vectors)) return changetype<F>(0).f16_vectors();
  return has_min<F>() ? 2 : 1;
}

// ---- Derived facts ----

/**
 * Number subtracted from every code while products are summed. It is the centre, except for formats
 * without one whose i16 sums need room (dot.ts): there it is half of the codes' range.
 */
@inline
export function taken_off<F>(): i32 {
  return !PAIR_SUMS || centre<F>() != 0 || s16<F>() || eight_bits<F>() || width<F>() <= 4 ? centre<F>() : (1 << width<F>()) >> 1;
}

/** taken_off exceeds the centre, so the excess is added back in i32. */
@inline
export function biased<F>(): bool {
  return taken_off<F>() != centre<F>();
}

/**
 * True if i16 sums, in builds that have them, have room for the products of a lane: 16 of a
 * sub-block, or with s16 the 8 of a half. (8-bit codes have i32 sums.)
 */
@inline
export function fits_i16<F>(): bool {
  const below = taken_off<F>();
  const above = largest<F>() - below;
  const most = below > above ? below : above;
  return !PAIR_SUMS || most * (s16<F>() ? 8 << second_shift<F>() : 16) * 127 <= 32767;
}

/** taken_off times lane_sums, in i16. Shifts need no constant, which V8 would build at every use. */
@inline
export function offset<F>(lane_sums: v128): v128 {
  if (taken_off<F>() == 0) return i32x4.splat(0);
  if (popcnt(taken_off<F>()) == 1) return i16x8.shl(lane_sums, ctz(taken_off<F>()));
  if (taken_off<F>() == 12) return i16x8.add(i16x8.shl(lane_sums, 3), i16x8.shl(lane_sums, 2));
  return i16x8.mul(lane_sums, i16x8.splat(<i16>taken_off<F>()));
}

/**
 * With s16: codes of the second half lie above those of the first and are multiplied without a
 * shift. Returns how many bits too large they are.
 */
@inline
export function second_shift<F>(): i32 {
  return width<F>() <= 4 ? width<F>() : 0;
}

/**
 * With s16: a super-block's integer sum has room for scales of scales_i8_large, since 256 weights *
 * code * 127 * scale * 256 < 2^31.
 */
@inline
function has_room<F>(): bool {
  const code_bits = centre<F>() != 0 ? width<F>() - 1 : width<F>();
  return 8 + code_bits + 7 + changetype<F>(0).scale_bits() + 8 < 31;
}

// ---- Codes ----

/**
 * Two vectors for first and second, to be kept in registers. With s16: masks of the codes of the
 * first and of the second half.
 */
@inline
export function mask<F>(): v128 {
  if (isDefined(changetype<F>(0).mask)) return changetype<F>(0).mask();
  return has_rests<F>() ? bytes_0x1f() : low_nibbles();
}

@inline
export function mask2<F>(): v128 {
  if (isDefined(changetype<F>(0).mask2)) return changetype<F>(0).mask2();
  return i32x4.splat(0);
}

/** Bytes from one quad (of both halves) to the next. */
@inline
export function quad_bytes<F>(): usize {
  if (by_halves<F>()) return 0;
  if (isDefined(changetype<F>(0).quad_bytes)) return changetype<F>(0).quad_bytes();
  return 64;
}

/** Vector with group G's codes of the first half's quad t. q: codes_at + t * quad_bytes. */
@inline
export function load_first<F, G>(q: usize, t: i32): v128 {
  return by_halves<F>() ? half_codes<F, G>(q, 0, t) : v128.load(q, offsetof<G>());
}

/**
 * Vector with group G's codes of the second half's quad t: v, the result of load_first, unless the
 * format has load_second, because they are stored elsewhere.
 */
@inline
export function load_second<F, G>(q: usize, t: i32, v: v128): v128 {
  if (by_halves<F>()) return half_codes<F, G>(q, 1, t);
  if (isDefined(changetype<F>(0).load_second)) return changetype<F>(0).load_second<G>(q);
  return v;
}

/**
 * The two lower bits of the second half's codes (the rests) lie in a vector of their own: the
 * format has rests_at (five_bits.ts).
 */
@inline
function has_rests<F>(): bool {
  return isDefined(changetype<F>(0).rests_at);
}

/** Address of a sub-block's rests, or 0. */
@inline
export function rests_at<F>(w: usize, sub: i32): usize {
  if (isDefined(changetype<F>(0).rests_at)) return changetype<F>(0).rests_at(w, sub);
  return 0;
}

/**
 * Vector at h (rests_at) shifted so that the rests of quad t are the low two bits of each byte, as
 * `second` takes them. The rests of later quads are the bits above.
 */
@inline
export function rests<F, G>(h: usize, t: i32): v128 {
  return has_rests<F>() ? i16x8.shr_u(v128.load(h, offsetof<G>()), t << 1) : i32x4.splat(0);
}

/** The vector of `rests` for the next quad. */
@inline
export function next_rests<F>(b: v128): v128 {
  return has_rests<F>() ? i16x8.shr_u(b, 2) : b;
}

/** Codes of the first half's quad, from v (load_first). m, m2: mask and mask2. */
@inline
export function first<F>(v: v128, m: v128, m2: v128): v128 {
  if (by_halves<F>()) return v;
  if (isDefined(changetype<F>(0).first)) return changetype<F>(0).first(v, m, m2);
  return v128.and(v, m);
}

/** Codes of the second half's quad, from v (load_second) and b (rests). */
@inline
export function second<F>(v: v128, b: v128, m: v128, m2: v128): v128 {
  if (by_halves<F>()) return v;
  if (isDefined(changetype<F>(0).second)) return changetype<F>(0).second(v, m, m2);
  if (has_rests<F>()) return v128.and(v128.xor(i16x8.shr_u(v, 3), b), m);
  return v128.and(i16x8.shr_u(v, 4), m);
}

/** The layout of codes is the format's own: it has half_codes. */
@inline
function by_halves<F>(): bool {
  return isDefined(changetype<F>(0).half_codes);
}

/**
 * Codes of quad t of a half (0 or 1). q: codes_at. The default reads codes of 3 or 6 bits from
 * three vectors, for formats with s16 (s16.ts).
 */
@inline
export function half_codes<F, G>(q: usize, half: i32, t: i32): v128 {
  const f = changetype<F>(0);
  if (isDefined(f.half_codes)) return f.half_codes<G>(q, half, t);
  if (width<F>() != 3 && width<F>() != 6) ERROR('three vectors of six bits hold codes of 3 bits or 6: others want half_codes of their own');
  if (width<F>() == 6) q += <usize>half * 192;
  const v = t < 3 ? v128.load(q + (<usize>t << 6), offsetof<G>()) : fourth_quad<G>(q);
  return half == 0 ? v128.and(v, mask<F>()) : i16x8.shr_u(v128.and(v, mask2<F>()), second_shift<F>());
}

// ---- Super-blocks: their integer scales and minima ----

/**
 * Scales of sub-block i, in the form that `scale` takes. With s16: scales of half i (0..15), one
 * signed byte a row.
 */
@inline
export function sc<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).sc)) return changetype<F>(0).sc(w, i);
  return i32x4.splat(0);
}

/** Scales of group G in the form that `scaled` (dot.ts) takes; for 8-bit codes as i32. */
@inline
export function scale<F, G>(v: v128): v128 {
  if (f32_scales<F>()) return changetype<F>(0).scale<G>(v);
  if (s16<F>()) return has_room<F>() ? scales_i8_large<G>(v) : scales_i8<G>(v);
  return eight_bits<F>() ? scales_s6<G>(v) : scales_u6<G>(v);
}

/** Minima: with s16 those of half i, one byte a row; else vector i of k_scales.ts. */
@inline
export function mn<F>(w: usize, i: i32): v128 {
  if (isDefined(changetype<F>(0).mn)) return changetype<F>(0).mn(w, i);
  return i32x4.splat(0);
}

/** d of group G, for integer sums with the scales of `scale`. */
@inline
export function block_d<F, G>(w: usize): v128 {
  return s16<F>() && has_room<F>() ? d_of_large(d<F, G>(w)) : d<F, G>(w);
}

/**
 * dmin of group G, for integer sums with the minima of minima_of_group (k_scales.ts) or, with s16,
 * of minima_of_halves.
 */
@inline
export function block_dmin<F, G>(w: usize): v128 {
  const m = dmin<F, G>(w);
  return super_block<F>() && !s16<F>() && (offsetof<G>() & 16) != 0 ? f32x4.mul(m, f32x4.splat(1.0 / 256)) : m;
}
