/** Random blocks of every format that can be packed. */
import { TYPE, rowSize, typesWith } from '../../src/type-traits.ts';
import type { TypeKernels, TypeName } from '../../src/type-traits.ts';
import { numberToF16 } from '../reference/f16.ts';
import { random } from './harness.ts';

type Scales = NonNullable<TypeKernels['scales']>;

export interface Case {
  readonly type: TypeName;
  /** Offsets of a block's f16 scales, or the kind of its scale. */
  readonly scales: Scales;
}

export const CASES: readonly Case[] = typesWith((k, { blckSize }) => k.packed && blckSize > 1).map(({ name, kernels }) => ({
  type: name,
  scales: kernels!.scales!,
}));

/**
 * One f32 rounding per block and operation (product of scales, sum) for at most a few hundred
 * blocks, as a fraction of the sum of magnitudes.
 */
export const ROUNDINGS = 4 * 2 ** -24;

/** Generators of scales by kind: bits of an f16, and exponents or numbers of 8 bits. */
interface Scaling {
  readonly f16: () => number;
  readonly e8m0: () => number;
  readonly ue4m3: () => number;
}

/** Writes the scales of the blocks in bytes. */
export function setScales({ type, scales }: Case, bytes: Uint8Array, { f16, e8m0, ue4m3 }: Scaling): void {
  for (let p = 0; p < bytes.length; p += TYPE[type].typeSize) {
    if (scales === 'e8m0') bytes[p] = e8m0();
    else if (scales === 'ue4m3') for (let i = 0; i < 4; i++) bytes[p + i] = ue4m3();
    else if (scales === 'iq1_m') {
      // The f16 scale lies in the top nibbles of four u16.
      const h = f16();
      for (let i = 0; i < 4; i++) bytes[p + 49 + 2 * i] = (bytes[p + 49 + 2 * i] & 15) | (((h >> (4 * i)) & 15) << 4);
    } else if (scales !== 'f32') {
      for (const at of scales) {
        const h = f16();
        bytes[p + at] = h & 255;
        bytes[p + at + 1] = h >> 8;
      }
    }
  }
}

/**
 * nrows x ne00 of random bytes, or of `fill`. Scales are near those of real weights, or all
 * `scale`, a power of two.
 */
export function weights(c: Case, ne00: number, nrows: number, seed: number, scale?: number, fill?: number): Uint8Array {
  const r = random(seed);
  const bytes = Uint8Array.from({ length: rowSize(TYPE[c.type], ne00) * nrows }, () => fill ?? r() * 256);
  setScales(c, bytes, {
    f16: () => numberToF16(scale ?? (r() - 0.3) * 0.05),
    e8m0: () => (scale ? Math.round(Math.log2(scale)) + 128 : 118 + r() * 6),
    ue4m3: () => (scale ? (Math.round(Math.log2(scale)) + 8) << 3 : 1 + r() * 30),
  });
  return bytes;
}
