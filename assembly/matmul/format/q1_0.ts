/**
 * q1_0x16: 16 rows of q1_0 side by side, 288 bytes for 16 x 128 weights; weight = d * (code - 1). A
 * set bit is the code 2, a clear bit the code 0.
 *
 *   | d of rows 0..15, f16 (32) | 4 sub-blocks: the four groups (4 x 64) |
 *
 * A vector holds all eight quads of a sub-block and a group. Read as codes of 2 bits (few_bits.ts),
 * their upper bits are vector 0; shifted left by one, vector 1.
 */
import { splat_u6 } from '../../simd';
import { spread_bits } from '../../type/block/words';
import { Q1_0_Facts } from './facts';
import { codes_of, pack_few_bits, words_of } from './few_bits';
import { pack_f16 } from './group';

@unmanaged
export class Q1_0 extends Q1_0_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 32 + (<usize>sub << 6);
  }
  @inline mask(): v128 {
    return splat_u6(2);
  }
  @inline mask2(): v128 {
    return splat_u6(8);
  }

  /** Vector i (0 or 1) of group G's sub-block at q. */
  @inline vector<G>(q: usize, i: i32): v128 {
    return i16x8.shl(v128.load(q, offsetof<G>()), i);
  }
  /**
   * Quads 2i + h of both halves, in the bits of mask and mask2: the vector itself or one shift of
   * it.
   */
  @inline quads<G>(q: usize, i: i32, h: i32): v128 {
    const v = v128.load(q, offsetof<G>());
    if (i == 0) return h == 0 ? v : i16x8.shr_u(v, 4);
    return h == 0 ? i16x8.shl(v, 1) : i16x8.shr_u(v, 3);
  }
  @inline half_codes<G>(q: usize, half: i32, t: i32): v128 {
    return codes_of(this.vector<G>(q, t >> 1), half, t, this.mask(), this.mask2());
  }

  /** The bits of one row's sub-block as codes 0 and 1, both halves in a byte. */
  @inline row_codes(row: usize, sub: i32): v128 {
    const p = row + 2 + (<usize>sub << 2);
    const first = v128.and(spread_bits(load<u16>(p)), i8x16.splat(1));
    return v128.or(first, v128.and(spread_bits(load<u16>(p, 2)), i8x16.splat(4)));
  }
  @inline store_row(q: usize, codes: v128): void {
    const v = words_of(codes);
    v128.store32_lane(q, v128.or(i8x16.add(v, v), i64x2.shuffle(v, v, 1, 1)), 0);
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_few_bits<Q1_0>(src, stride, w);
  }
}
