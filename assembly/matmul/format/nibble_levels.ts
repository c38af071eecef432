/**
 * Code shared by iq4_nl and iq4_xs: nibbles are indices into sixteen levels, which are the signed
 * 8-bit codes.
 */
import { lookup16 } from '../../simd';
import { packed_codes } from '../dot_signed';

/** ggml's kvalues_iq4nl. */
const LEVELS: usize = memory.data<i8>([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], 16);

/**
 * Base class of iq4_nl and iq4_xs. (No method here may be overridden: AssemblyScript would not
 * inline it.)
 */
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
