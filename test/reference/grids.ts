/**
 * The grids of ggml's IQ formats, entry by entry, from ggml's own tables. test/golden/iq-grids.json
 * has a bit for every combination of a grid's levels, set if an entry of `iq2xxs_grid` ...
 * `iq1s_grid` (ggml-common.h) is that combination.
 */
import { readFileSync } from 'node:fs';

const bits = JSON.parse(readFileSync(new URL('../golden/iq-grids.json', import.meta.url), 'utf8')) as Readonly<Record<string, string>>;

/**
 * Entries of n values among `levels`, in ascending order. The number of a set bit, written in base
 * levels.length, has the first value as its lowest digit.
 */
function entries(name: string, n: number, levels: readonly number[]): number[][] {
  const bytes = Buffer.from(bits[name], 'hex');
  const numbers = Array.from({ length: levels.length ** n }, (_, i) => i).filter((i) => (bytes[i >> 3] >> (i & 7)) & 1);
  return numbers.map((number) => Array.from({ length: n }, (_, i) => levels[Math.floor(number / levels.length ** i) % levels.length]));
}

const IQ2 = [8, 25, 43];
export const iq2xxs = entries('iq2xxs', 8, IQ2);
export const iq2xs = entries('iq2xs', 8, IQ2);
export const iq2s = entries('iq2s', 8, IQ2);
export const iq1s = entries('iq1s', 8, [-1, 0, 1]);
export const iq3xxs = entries('iq3xxs', 4, [4, 12, 20, 28, 36, 44, 52, 62]);
export const iq3s = entries('iq3s', 4, [1, 3, 5, 7, 9, 11, 13, 15]);
