/**
 * iq4_nlx16: as q4_0x16 (288 bytes for 16 x 32 weights), but a nibble is an index into sixteen levels, here 8-bit codes around 128.
 *
 * Levels are nearly a straight line: level + 128 = 16 * nibble + rest, where rest is -11..15. So a code's high part is the nibble itself,
 * and one table look-up (rest + 11) is all that its two parts cost; sums of rest fit i16 as those of nibbles do.
 */
import { lookup16 } from '../simd';
import { load_scales, pack_f16, pack_nibbles } from './group';

/** Bytes of a block of one row: f16 d, 16 bytes of nibbles. */
const BYTES: usize = 18;

/** ggml's kvalues_iq4nl + 128. */
const LEVELS: usize = memory.data<u8>([1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241], 16);

// @ts-ignore: decorator
@inline
function levels(): v128 { return v128.load(LEVELS); }

/** LEVELS - 16 * index + 11. */
const RESTS: usize = memory.data<u8>([12, 19, 24, 26, 26, 24, 21, 17, 12, 8, 4, 1, 0, 0, 4, 12], 16);

// @ts-ignore: decorator
@inline
function rests(): v128 { return v128.load(RESTS); }

/** What was added to the rests. */
const ELEVEN: usize = memory.data<i16>([11, 11, 11, 11, 11, 11, 11, 11], 16);

/** What formats have whose nibbles are indices into the levels. (Nothing here may be overridden: AssemblyScript would not inline it.) */
@unmanaged
export class Levels {
  wide: bool;

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return rests(); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return lookup16(levels(), v128.and(v, m)); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return lookup16(levels(), v128.and(i16x8.shr_u(v, 4), m)); }

  // @ts-ignore: decorator
  @inline
  lo_low(v: v128, m: v128, m2: v128): v128 { return lookup16(m2, v128.and(v, m)); }

  // @ts-ignore: decorator
  @inline
  hi_low(v: v128, m: v128, m2: v128): v128 { return lookup16(m2, v128.and(i16x8.shr_u(v, 4), m)); }

  // @ts-ignore: decorator
  @inline
  lo_high(v: v128, m: v128): v128 { return v128.and(v, m); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i16x8.mul(pair, v128.load(ELEVEN)); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 128; }

  // @ts-ignore: decorator
  @inline
  d<G>(w: usize): v128 { return load_scales<G>(w); }
}

@unmanaged
export class IQ4_NL extends Levels {
  // @ts-ignore: decorator
  @inline
  bytes(): usize { return 16 * BYTES; }

  // @ts-ignore: decorator
  @inline
  quads(w: usize, sub: i32): usize { return w + 32; }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    pack_nibbles(src + 2, stride, w + 32);
  }
}
