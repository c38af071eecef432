/**
 * Codes of 5 bits (q5_0, q5_1, q5_K). In the vector of a quad, bits 0..4 of a byte are a code of
 * the first half, and bits 5..7 the upper three bits of a code of the second half. The lower two
 * bits of the second half's codes, the rests, lie in a vector of their own for each group, before
 * the quads. Quad t has bits 2t and 2t + 1 of the rests.
 *
 *   first = v & 31        second = ((v >> 3) ^ (rests >> 2t)) & 31
 *
 * These shifts also bring in bits of other quads and of the next byte. Packing knows those bits,
 * and stores a code's bits XOR those. So two codes take four operations, plus a shift of the rests
 * for the next quads. A vector of fifth bits next to nibbles would take nine.
 */
import { splat_u6 } from '../../simd';
import { weight_order } from '../dot';

/**
 * Gathers two vectors of 0 and 1 (k 0..15 and 16..31 of a row) into four bytes, one for each k % 4,
 * in every i32 lane.
 */
@inline
function gather(a: v128, b: v128): v128 {
  const x = i32x4.mul(a, i32x4(1, 2, 4, 8));
  const y = i32x4.mul(b, i32x4(16, 32, 64, 128));
  const z = v128.or(x, y);
  const h = v128.or(z, i64x2.shuffle(z, z, 1, 0));
  return v128.or(h, i32x4.shuffle(h, h, 1, 0, 3, 2));
}

/**
 * Packs bit `bit` of 32 bytes of each of a group's rows, `stride` bytes apart at src, to one weight
 * vector at h; see join_codes.
 */
@inline
export function store_fifth_bits(h: usize, src: usize, stride: usize, bit: i32): void {
  const one = i8x16.splat(1);
  for (let r: usize = 0; r < 4; r++) {
    const p = src + r * stride;
    const v = gather(v128.and(i16x8.shr_u(v128.load(p), bit), one), v128.and(i16x8.shr_u(v128.load(p, 16), bit), one));
    store<i32>(h + (r << 2), i32x4.extract_lane(v, 0));
  }
  v128.store(h, weight_order(v128.load(h)));
}

/**
 * Packs 32 bits of each of 16 rows, `stride` bytes apart at src, where bit k belongs to weight k.
 * Joins them with the nibbles that follow h; see join_codes.
 */
export function pack_fifth_bits(src: usize, stride: usize, h: usize): void {
  const selected = i64x2.splat(0x8040201008040201);
  const one = i8x16.splat(1);
  for (let r: usize = 0; r < 16; r++) {
    const v = v128.load32_zero(src + r * stride);
    const a = v128.and(i8x16.eq(v128.and(i8x16.shuffle(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), selected), selected), one);
    const b = v128.and(i8x16.eq(v128.and(i8x16.shuffle(v, v, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3), selected), selected), one);
    store<i32>(h + (r << 2), i32x4.extract_lane(gather(a, b), 0));
  }
  for (let g: usize = 0; g < 4; g++) v128.store(h + (g << 4), weight_order(v128.load(h + (g << 4))));
  join_codes(h);
}

/**
 * Converts a sub-block from fifth bits (at h) and nibbles (after them) to the packed form, in
 * place. The fifth bits are one weight vector for each group: bit t of a byte belongs to quad t of
 * the first half, bit 4 + t to quad t of the second. Nibbles lie as in q4_0.
 */
export function join_codes(h: usize): void {
  for (const end = h + 64; h != end; h += 16) {
    const b = v128.load(h);
    let rests = i32x4.splat(0);
    for (let t = 0; t < 4; t++) {
      const v = v128.load(h + (<usize>t << 6), 64);
      const differs = v128.xor(i16x8.shr_u(code(v, b, t), 3), second_code(v, b, t));
      rests = v128.or(rests, i16x8.shl(v128.and(differs, splat_u6(3)), t << 1));
    }
    v128.store(h, rests);
    for (let t = 0; t < 4; t++) {
      const p = h + (<usize>t << 6);
      const v = v128.load(p, 64);
      const differs = v128.xor(i16x8.shr_u(rests, t << 1), second_code(v, b, t));
      v128.store(p, v128.or(code(v, b, t), i16x8.shl(v128.and(differs, splat_u6(28)), 3)), 64);
    }
  }
}

/** Codes of the first half's quad t, from low nibbles of v and bits t of b. */
@inline
function code(v: v128, b: v128, t: i32): v128 {
  return v128.or(v128.and(v, splat_u6(15)), v128.and(i16x8.shl(i16x8.shr_u(b, t), 4), splat_u6(16)));
}

/** Codes of the second half's quad t. */
@inline
function second_code(v: v128, b: v128, t: i32): v128 {
  return code(i16x8.shr_u(v, 4), i16x8.shr_u(b, 4), t);
}
