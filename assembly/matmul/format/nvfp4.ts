/**
 * nvfp4x16: 16 rows of nvfp4 side by side, 576 bytes for 16 x 64 weights; weight = d * (code - 12),
 * with an f32 d for 16 weights.
 *
 *   | d of 4 halves, UE4M3: 16 rows each (64) | 4 halves (4 x 128) |
 *   half: | quads 0 and, in the high nibbles, 2 of the four groups (64) | quads 1 and 3 (64) |
 *
 * Nibbles are indices into the values of mxfp4.ts.
 */
import { lookup16 } from '../../simd';
import { weight_order } from '../dot';
import { low_nibbles } from './constants';
import { NVFP4_Facts } from './facts';
import { group_u8, pack_bytes } from './group';
import { e2m1_codes } from './mxfp4';

@unmanaged
export class NVFP4 extends NVFP4_Facts {
  @inline codes_at(w: usize, sub: i32): usize {
    return w + 64 + (<usize>sub << 8);
  }
  @inline half_codes<G>(q: usize, half: i32, t: i32): v128 {
    const v = v128.load(q + (<usize>half << 7) + (<usize>(t & 1) << 6), offsetof<G>());
    return lookup16(e2m1_codes(), v128.and(t < 2 ? v : i16x8.shr_u(v, 4), low_nibbles()));
  }
  @inline sc(w: usize, i: i32): v128 {
    return v128.load(w + (<usize>i << 4));
  }

  /**
   * Half of group G's UE4M3 as f32. Exponent and mantissa are shifted into an f32's place and
   * multiplied by 2^119, which also normalises subnormal numbers.
   */
  @inline scale<G>(v: v128): v128 {
    return f32x4.mul(i32x4.shl(group_u8<G>(v), 20), f32x4.splat(reinterpret<f32>(0x7b000000)));
  }

  pack(src: usize, stride: usize, w: usize): void {
    pack_bytes(src, stride, 4, w);
    // ggml reads 0x7f as 0, and otherwise ignores the top bit.
    for (let p = w; p < w + 64; p++) store<u8>(p, load<u8>(p) == 0x7f ? 0 : load<u8>(p) & 0x7f);
    for (let i: usize = 0; i < 8; i++) {
      for (let g: usize = 0; g < 4; g++) {
        const p = src + g * 4 * stride + (i << 2) + 4;
        const v = v128.load32_lane(p + stride, v128.load32_zero(p), 1);
        v128.store(w + (i << 6) + (g << 4), weight_order(v128.load32_lane(p + 3 * stride, v128.load32_lane(p + 2 * stride, v, 2), 3)), 64);
      }
    }
  }
}
