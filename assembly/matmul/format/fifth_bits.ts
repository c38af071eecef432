/**
 * What q5_0, q5_1 and q5_K share: nibbles as in q4_0, and the fifth bits of a sub-block apart, one weight vector for each group.
 * A byte of fifth bits serves one k % 4 of one row: bit t is of quad t of the first half, bit 4 + t of quad t of the second half.
 */
import { weight_order } from '../dot';

/** Two vectors of 0 and 1 (k 0..15 and 16..31 of a row) as four bytes, one for each k % 4, in every i32 lane. */
// @ts-ignore: decorator
@inline
function gather(a: v128, b: v128): v128 {
  const x = i32x4.mul(a, i32x4(1, 2, 4, 8));
  const y = i32x4.mul(b, i32x4(16, 32, 64, 128));
  const z = v128.or(x, y);
  const h = v128.or(z, i64x2.shuffle(z, z, 1, 0));
  return v128.or(h, i32x4.shuffle(h, h, 1, 0, 3, 2));
}

/** Packs bit `bit` of 32 bytes of each of a group's rows, `stride` bytes apart at src: one weight vector at h. */
// @ts-ignore: decorator
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

/** Packs the 32 bits of each of 16 rows, `stride` bytes apart at src, bit k for weight k: the four groups' weight vectors at h. */
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
}
