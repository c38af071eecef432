/**
 * q2_0x16: 16 rows of q2_0 side by side, 288 bytes for 16 x 64 weights; weight = d * (code - 1).
 *
 *   | d of rows 0..15, f16 (32) | 2 sub-blocks (2 x 128): vector 0 of the four groups (64), vector 1 (64), few_bits.ts |
 */
import { codes_q2_0 } from '../../type/block/q2_0';
import { bytes_0x03, bytes_0x0c } from './constants';
import { Q2_0_Facts } from './facts';
import { codes_of, pack_few_bits, words_of } from './few_bits';
import { pack_f16 } from './group';

/** Base class of the formats of 2 bits. (Nothing here may be overridden: AssemblyScript would not inline it.) */
@unmanaged
export class TwoBits {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 32 + (<usize>sub << 7);
  }
  @inline mask(): v128 {
    return bytes_0x03();
  }
  @inline mask2(): v128 {
    return bytes_0x0c();
  }

  /** Vector i (0 or 1) of group G's sub-block at q. */
  @inline vector<G>(q: usize, i: i32): v128 {
    return v128.load(q + (<usize>i << 6), offsetof<G>());
  }
  /** What has quads 2i + h of either half in the bits of mask and mask2. */
  @inline quads<G>(q: usize, i: i32, h: i32): v128 {
    const v = this.vector<G>(q, i);
    return h == 0 ? v : i16x8.shr_u(v, 4);
  }
  @inline half_codes<G>(q: usize, half: i32, t: i32): v128 {
    return codes_of(this.vector<G>(q, t >> 1), half, t, this.mask(), this.mask2());
  }
  @inline store_row(q: usize, codes: v128): void {
    const v = words_of(codes);
    v128.store32_lane(q, v, 0);
    v128.store32_lane(q, v, 2, 64);
  }
}

@unmanaged
export class Q2_0 extends Q2_0_Facts {
  /** The codes of one row's sub-block, both halves in a byte. */
  @inline row_codes(row: usize, sub: i32): v128 {
    const p = row + 2 + (<usize>sub << 3);
    return v128.or(codes_q2_0(p), i16x8.shl(codes_q2_0(p + 4), 2));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_few_bits<Q2_0>(src, stride, w);
  }
}
