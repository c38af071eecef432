/** Random blocks of every format that can be packed. */
import { TYPE, rowSize, typesWith } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { numberToF16 } from '../reference/f16.ts';
import { random } from './harness.ts';

export interface Case {
  readonly type: TypeName;
  /** Where a block holds f16 scales. */
  readonly f16: readonly number[];
  /** Where it holds an E8M0 scale. */
  readonly exponent?: number;
}

export const CASES: readonly Case[] = typesWith((k, { blckSize }) => k.packed && blckSize > 1).map(({ name, kernels }) => {
  const { scales } = kernels!;
  return Array.isArray(scales) ? { type: name, f16: scales as readonly number[] } : { type: name, f16: [], exponent: 0 };
});

/** One f32 rounding per block and operation (product of scales, sum), a few hundred blocks at most: of the sum of magnitudes. */
export const ROUNDINGS = 4 * 2 ** -24;

/** nrows x ne00 of random bytes with scales near those of real weights. */
export function weights({ type, f16, exponent }: Case, ne00: number, nrows: number, seed: number, scale?: number): Uint8Array {
  const r = random(seed);
  const bytes = Uint8Array.from({ length: rowSize(TYPE[type], ne00) * nrows }, () => r() * 256);
  for (let p = 0; p < bytes.length; p += TYPE[type].typeSize) {
    for (const at of f16) {
      const h = numberToF16(scale ?? (r() - 0.3) * 0.05);
      bytes[p + at] = h & 255;
      bytes[p + at + 1] = h >> 8;
    }
    if (exponent !== undefined) bytes[p + exponent] = scale ? Math.round(Math.log2(scale)) + 128 : 118 + r() * 6;
  }
  return bytes;
}
