/**
 * tq2_0x16: 16 rows of tq2_0 side by side, 1056 bytes for 16 x 256 weights; weight = d * (code -
 * 1).
 *
 *   | d of rows 0..15, f16 (32) | 8 sub-blocks (8 x 128), as in q2_0x16 |
 */
import { TQ2_0_Facts } from './facts';
import { pack_few_bits } from './few_bits';
import { pack_f16 } from './group';
import { two_bits } from './two_bits';

@unmanaged
export class TQ2_0 extends TQ2_0_Facts {
  /** The codes of one row's sub-block, both halves in a byte. */
  @inline row_codes(row: usize, sub: i32): v128 {
    return v128.or(two_bits(row, sub, 0), i16x8.shl(two_bits(row, sub, 1), 2));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 64, stride, w);
    pack_few_bits<TQ2_0>(src, stride, w);
  }
}
