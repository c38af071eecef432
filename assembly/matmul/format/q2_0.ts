/**
 * q2_0x16: 16 rows of q2_0 side by side, 288 bytes for 16 x 64 weights; weight = d * (code - 1).
 *
 *   | d of rows 0..15, f16 (32) | 2 sub-blocks (2 x 128) |
 *   sub-block: | vector 0 of the four groups (64) | vector 1 (64) |         see few_bits.ts
 */
import { codes_q2_0 } from '../../type/block/q2_0';
import { Q2_0_Facts } from './facts';
import { pack_few_bits } from './few_bits';
import { pack_f16 } from './group';

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
