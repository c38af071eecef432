/**
 * Code shared by the formats of 1 and 2 bits without integer scales (q2_0, q1_0, tq2_0). weight = d
 * * (code - 1), with one d for 64 weights or a multiple of 64. Loops take 64 weights at a time
 * (gemv_16x1_bits.ts, gemm_8x4_bits.ts). Codes of 2 bits are 0..3; a bit of q1_0 is the code 0 or
 * 2.
 *
 * The bytes of a vector hold four quads, two of either half of a sub-block, and vectors come in
 * pairs. Vector i of a sub-block and a group has
 *
 *   bits 0, 1: quad 2i of the first half      | bits 2, 3: quad 2i of the second half
 *   bits 4, 5: quad 2i + 1 of the first half  | bits 6, 7: quad 2i + 1 of the second half
 *
 * Codes of the second half are multiplied without a shift, four times too large.
 */
import { weight_order } from '../dot';
import { bytes_0x03, bytes_0x0c } from './constants';

/**
 * Codes of quad t of a half, from vector t / 2 of a sub-block. m and m2: masks of the first half's
 * codes and the second half's.
 */
@inline
export function codes_of(v: v128, half: i32, t: i32, m: v128, m2: v128): v128 {
  v = i16x8.shr_u(v, (t & 1) << 2);
  return half == 0 ? v128.and(v, m) : i16x8.shr_u(v128.and(v, m2), 2);
}

/**
 * Words of one row for both vectors of a sub-block, in lanes 0 and 2, from its 32 codes: the first
 * half's in bits 0 and 1 of 16 bytes, the second half's in bits 2 and 3.
 */
@inline
export function words_of(codes: v128): v128 {
  return v128.or(codes, i16x8.shl(i32x4.shuffle(codes, codes, 1, 1, 3, 3), 4));
}

/**
 * Packs the codes of a block of each of 16 rows. F.row_codes(row, sub) reads them, F.store_row
 * stores them.
 */
export function pack_few_bits<F>(src: usize, stride: usize, w: usize): void {
  const f = changetype<F>(0);
  for (let sub = 0; sub < f.subs(); sub++) {
    let q = f.codes_at(w, sub);
    for (let r: usize = 0; r < 16; r++) f.store_row(q + (r << 2), f.row_codes(src + r * stride, sub));
    for (const end = f.codes_at(w, sub + 1); q < end; q += 16) v128.store(q, weight_order(v128.load(q)));
  }
}

/**
 * Base class of q2_0 and tq2_0. (No method here may be overridden: AssemblyScript would not inline
 * it.)
 */
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
  /** Quads 2i + h of both halves, in the bits of mask and mask2. */
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
