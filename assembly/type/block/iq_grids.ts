/**
 * Grids of ggml's IQ formats. An index stands for eight (IQ1, IQ2) or four (IQ3) values; as in
 * ggml, each is one byte, the first in the lowest.
 *
 * A module's start function writes the grids after its static data. If threads share a memory, each
 * instance does so, maybe while another one reads: the bytes are the same every time. Grids end
 * below 64 KiB, since packed products store addresses of entries as u16 (matmul/format/grid.ts;
 * test/graph/layout.test.ts).
 */
import { IQ1S_BITS, IQ2S_BITS, IQ2XS_BITS, IQ2XXS_BITS, IQ3S_BITS, IQ3XXS_BITS, expand_grid } from './iq_grid_bits';

/** Bytes of the grids, in the order in which they follow the static data. */
const IQ2XXS: usize = 8 * 256;
const IQ2XS: usize = 8 * 512;
const IQ2S: usize = 8 * 1024;
const IQ1S: usize = 8 * 2048;
const IQ3XXS: usize = 4 * 256;
const IQ3S: usize = 4 * 512;

/** Start of the grids, aligned so that an entry of eight bytes lies in one cache line. */
@inline
function grids(): usize {
  return (__heap_base + 7) & -8;
}

/** 256 entries of eight values among 8, 25 and 43. */
@inline
export function iq2xxs_grid(): usize {
  return grids();
}

/** 512 entries of eight, as iq2xxs_grid. */
@inline
export function iq2xs_grid(): usize {
  return grids() + IQ2XXS;
}

/** 1024 entries of eight, as iq2xxs_grid. */
@inline
export function iq2s_grid(): usize {
  return grids() + (IQ2XXS + IQ2XS);
}

/** 2048 entries of eight values among 0, 8 and 16, which are 8 * (-1, 0, 1) + 8. */
@inline
export function iq1s_grid(): usize {
  return grids() + (IQ2XXS + IQ2XS + IQ2S);
}

/** 256 entries of four values among 4, 12, 20, 28, 36, 44, 52 and 62. */
@inline
export function iq3xxs_grid(): usize {
  return grids() + (IQ2XXS + IQ2XS + IQ2S + IQ1S);
}

/** 512 entries of four odd values from 1 to 15. */
@inline
export function iq3s_grid(): usize {
  return grids() + (IQ2XXS + IQ2XS + IQ2S + IQ1S + IQ3XXS);
}

/** Start of the heap in a module with grids. */
@inline
export function grids_end(): usize {
  return grids() + (IQ2XXS + IQ2XS + IQ2S + IQ1S + IQ3XXS + IQ3S);
}

/** Two entries of eight values. */
@inline
export function grid2(table: usize, a: u32, b: u32): v128 {
  return v128.load64_lane(table + 8 * b, v128.load64_zero(table + 8 * a), 1);
}

/** Four entries of four values. */
@inline
export function grid4(table: usize, a: u32, b: u32, c: u32, d: u32): v128 {
  const ab = v128.load32_lane(table + 4 * b, v128.load32_zero(table + 4 * a), 1);
  return v128.load32_lane(table + 4 * d, v128.load32_lane(table + 4 * c, ab, 2), 3);
}

/** Adds the eighth to seven sign bits: it makes the number of minus signs even. */
@inline
export function even_signs(bits: u32): u32 {
  bits &= 127;
  return bits | ((popcnt(bits) & 1) << 7);
}

const IQ2_LEVELS: u64 = 0x2b1908;
expand_grid(IQ2XXS_BITS, iq2xxs_grid(), 8, 3, IQ2_LEVELS);
expand_grid(IQ2XS_BITS, iq2xs_grid(), 8, 3, IQ2_LEVELS);
expand_grid(IQ2S_BITS, iq2s_grid(), 8, 3, IQ2_LEVELS);
expand_grid(IQ1S_BITS, iq1s_grid(), 8, 3, 0x100800);
expand_grid(IQ3XXS_BITS, iq3xxs_grid(), 4, 8, 0x3e342c241c140c04);
expand_grid(IQ3S_BITS, iq3s_grid(), 4, 8, 0x0f0d0b0907050301);
