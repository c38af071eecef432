/**
 * tq1_0x16: 16 rows of tq1_0 side by side, 864 bytes for 16 x 256 weights; weight = d * (code - 1),
 * in runs of 64 weights as in few_bits.ts.
 *
 *   | d of rows 0..15, f16 (32) | quad 15 of all runs (64) |
 *   | 4 runs: vectors 0, 1 and 2 of the four groups (4 x 192) |
 *
 * Vector v of a run and a group has quads 5v .. 5v + 4 as five digits of base 3, as in plain tq1_0
 * (type/block/tq1_0.ts): the first digit of a byte q is 3q / 256, and 3q mod 256 has the next digit
 * in that place. Bytes are stored - 128, so that signed comparisons find the digit. Quads 15 are
 * codes of 2 bits; run r's are bits 2r and 2r + 1.
 */
import { splat_u6 } from '../../simd';
import { code_offset } from '../dot';
import { TQ1_0_Facts } from './facts';
import { pack_f16 } from './group';

/** 3^n. */
const POWERS = memory.data<u8>([1, 3, 9, 27, 81]);

/**
 * Bounds of the first digit, as bytes - 128: a byte above 85 has the digit 1 or 2, one above 170
 * has 2.
 */
const TRITS = memory.data<i8>([-43, 42]);

@unmanaged
export class TQ1_0 extends TQ1_0_Facts {
  pack(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 52, stride, w);
    memory.fill(w + 32, 0, 64);
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride;
      for (let k: usize = 0; k < 4; k++) {
        const at = w + ((r >> 2) << 4) + code_offset(<i32>r & 3, <i32>k);
        for (let run: usize = 0; run < 4; run++) {
          for (let v: usize = 0; v < 3; v++) {
            let q: u32 = 0;
            for (let i: usize = 0; i < 5; i++) q = q * 3 + trit(row, (run << 6) + 20 * v + 4 * i + k);
            store<u8>(at + 192 * run + (v << 6), ((q * 256 + 242) / 243) ^ 128, 96);
          }
          store<u8>(at, load<u8>(at, 32) | (trit(row, (run << 6) + 60 + k) << (<u32>run << 1)), 32);
        }
      }
    }
  }

  /** Packs the same weights as tq2_0x16 (tq2_0.ts). */
  pack_fast(src: usize, stride: usize, w: usize): void {
    pack_f16(src + 52, stride, w);
    for (let r: usize = 0; r < 16; r++) {
      const row = src + r * stride;
      for (let k: usize = 0; k < 4; k++) {
        const at = w + ((r >> 2) << 4) + code_offset(<i32>r & 3, <i32>k);
        for (let v: usize = 0; v < 16; v++) {
          const j = ((v >> 1) << 5) + ((v & 1) << 3) + k;
          store<u8>(at + (v << 6), trit(row, j) | (trit(row, j + 16) << 2) | (trit(row, j + 4) << 4) | (trit(row, j + 20) << 6), 32);
        }
      }
    }
  }
}

/** Element j of a plain row's block (type/block/tq1_0.ts), as a digit 0..2. */
function trit(row: usize, j: usize): u32 {
  let p = j & 31;
  let n = j >> 5;
  if (j >= 240) {
    p = 48 + (j & 3);
    n = (j - 240) >> 2;
  } else if (j >= 160) {
    p = 32 + (j & 15);
    n = (j - 160) >> 4;
  }
  const q = (<u32>load<u8>(row + p) * load<u8>(POWERS + n)) & 255;
  return (q * 3) >> 8;
}

/** Address of the first vector of a packed block's runs; last_quads_at: of its quads 15. */
@inline
export function runs_at(w: usize): usize {
  return w + 96;
}

@inline
export function last_quads_at(w: usize): usize {
  return w + 32;
}

/** Bounds of the digits 1 and 2, to be kept in registers. */
@inline
export function bound1(): v128 {
  return v128.load8_splat(TRITS);
}

@inline
export function bound2(): v128 {
  return v128.load8_splat(TRITS, 1);
}

/** Codes from the first digits of v. b1, b2: bounds. */
@inline
export function first_trits(v: v128, b1: v128, b2: v128): v128 {
  return i8x16.abs(i8x16.add(i8x16.gt_s(v, b1), i8x16.gt_s(v, b2)));
}

/** v with the next digit in first place. */
@inline
export function next_trits(v: v128): v128 {
  return i8x16.add(i8x16.add(v, v), v);
}

/** Codes of quad 15 of a run, from a vector of quads 15. */
@inline
export function last_trits(v: v128, run: i32): v128 {
  return v128.and(i16x8.shr_u(v, run << 1), splat_u6(3));
}
