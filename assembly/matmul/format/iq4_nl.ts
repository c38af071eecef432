/**
 * iq4_nlx16: as q4_0x16 (288 bytes for 16 x 32 weights), but a nibble is an index into sixteen
 * levels, and the levels are the signed 8-bit codes.
 */
import { IQ4_NL_Facts } from './facts';
import { pack_f16, pack_nibbles } from './group';

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
