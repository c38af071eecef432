/**
 * q8_0x16: 16 rows of q8_0 side by side, 544 bytes for 16 x 32 weights; weight = d * code.
 *
 *   | d of rows 0..15, f16 (32) | quad 0: k 0..3 of the four groups (64), k 16..19 (64) |
 *   | quads 1..3 (3 x 128) |
 *
 * Codes are signed. Their packed form depends on the build (dot_signed.ts).
 */
import { packed_codes } from '../dot_signed';
import { Q8_0_Facts } from './facts';
import { pack_f16, store_quads } from './group';

@unmanaged
export class Q8_0 extends Q8_0_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 32;
  }
  @inline quad_bytes(): usize {
    return 128;
  }
  @inline load_second<G>(q: usize): v128 {
    return v128.load(q, offsetof<G>() + 64);
  }
  @inline first(v: v128, m: v128, m2: v128): v128 {
    return v;
  }
  @inline second(v: v128, m: v128, m2: v128): v128 {
    return v;
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src, stride, w);
    for (let g: usize = 0; g < 4; g++) {
      const p = src + g * 4 * stride + 2;
      const q = w + 32 + (g << 4);
      pack_half(p, stride, q);
      pack_half(p + 16, stride, q + 64);
    }
  }
}

/**
 * Packs 16 codes of each row of a group, `stride` bytes apart at p, to the group's part of the
 * quads at q.
 */
function pack_half(p: usize, stride: usize, q: usize): void {
  const r0 = packed_codes(v128.load(p));
  const r1 = packed_codes(v128.load(p + stride));
  store_quads(q, r0, r1, packed_codes(v128.load(p + stride * 2)), packed_codes(v128.load(p + stride * 3)), 128);
}
