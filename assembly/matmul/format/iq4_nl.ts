/**
 * iq4_nlx16: as q4_0x16 (288 bytes for 16 x 32 weights), but a nibble is an index into sixteen levels, which are the signed 8-bit codes.
 */
import { lookup16 } from '../../simd';
import { packed_codes } from '../dot_signed';
import { IQ4_NL_Facts } from './facts';
import { pack_f16, pack_nibbles } from './group';

/** ggml's kvalues_iq4nl. */
const LEVELS: usize = memory.data<i8>([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], 16);

/** Base class of the formats whose nibbles are indices into the levels. (Nothing here may be overridden: AssemblyScript would not inline it.) */
@unmanaged
export class Levels {
  @inline mask2(): v128 {
    return packed_codes(v128.load(LEVELS));
  }
  @inline first(v: v128, m: v128, m2: v128): v128 {
    return lookup16(m2, v128.and(v, m));
  }
  @inline second(v: v128, m: v128, m2: v128): v128 {
    return lookup16(m2, v128.and(i16x8.shr_u(v, 4), m));
  }
}

@unmanaged
export class IQ4_NL extends IQ4_NL_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 32;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_nibbles(src + 2, stride, w + 32);
  }
}
