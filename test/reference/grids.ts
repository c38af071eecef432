/**
 * The grids of ggml's IQ formats, entry by entry. The bits that tell which combinations of levels
 * exist are read from the kernels' source (test/golden/formats.json compares them with native
 * ggml). The decoding to entries is independent.
 */
import { readFileSync } from 'node:fs';

const source = readFileSync(new URL('../../assembly/type/block/iq_grid_bits.ts', import.meta.url), 'utf8');

/**
 * Entries of n values among `levels`. The number of a set bit, written in base levels.length, has
 * the first value as its lowest digit.
 */
function entries(name: string, n: number, levels: readonly number[]): number[][] {
  const table = new RegExp(`export const ${name} = memory\\.data<u64>\\(\\s*\\[([^\\]]*)\\]`).exec(source)![1];
  const words = [...table.matchAll(/0x[\da-f]+/g)].map(([word]) => BigInt(word));
  const numbers = Array.from({ length: levels.length ** n }, (_, i) => i).filter((i) => (words[i >> 6] >> BigInt(i & 63)) & 1n);
  return numbers.map((number) => Array.from({ length: n }, (_, i) => levels[Math.floor(number / levels.length ** i) % levels.length]));
}

const IQ2 = [8, 25, 43];
export const iq2xxs = entries('IQ2XXS_BITS', 8, IQ2);
export const iq2xs = entries('IQ2XS_BITS', 8, IQ2);
export const iq2s = entries('IQ2S_BITS', 8, IQ2);
export const iq1s = entries('IQ1S_BITS', 8, [-1, 0, 1]);
export const iq3xxs = entries('IQ3XXS_BITS', 4, [4, 12, 20, 28, 36, 44, 52, 62]);
export const iq3s = entries('IQ3S_BITS', 4, [1, 3, 5, 7, 9, 11, 13, 15]);
