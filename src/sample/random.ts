/** Random numbers of a sampler. A seed gives the same numbers on every platform. */
import { QuantletError } from '../errors.ts';

/** Numbers in [0, 1) with 53 random bits. */
export interface Random {
  /** Seed in use, also if it was chosen at random. Passing it repeats the run. */
  readonly seed: number;
  next(): number;
  /** Restarts from the first number. */
  reset(): void;
}

/**
 * xoshiro128** (Blackman and Vigna, 2018), with its state filled from the seed by splitmix32;
 * period 2^128 - 1. Uses only 32-bit integer operations, so a seed gives the same numbers on every
 * platform. (llama.cpp's mt19937 with std::discrete_distribution differs between C++ libraries.)
 * @param seed integer 0 .. 2^32 - 1; undefined or -1: random
 * @throws QuantletError ERR_INVALID_ARGUMENT
 */
export function createRandom(seed?: number): Random {
  if (seed === undefined || seed === -1) seed = Math.floor(Math.random() * 2 ** 32); // (loading Web Crypto would delay the start of Node)
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff) {
    throw new QuantletError('ERR_INVALID_ARGUMENT', `seed is ${seed}; expected an integer from 0 to 4294967295, or -1 for a random one`);
  }
  const start = seed;
  const s = new Uint32Array(4);

  function reset(): void {
    let state = start >>> 0;
    for (let i = 0; i < 4; i++) {
      state = (state + 0x9e3779b9) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
      z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
      s[i] = z ^ (z >>> 16);
    }
  }

  function next32(): number {
    const x = Math.imul(s[1], 5);
    const result = Math.imul((x << 7) | (x >>> 25), 9) >>> 0;
    const t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  reset();
  return {
    seed: start,
    reset,
    next() {
      const high = next32() >>> 5;
      const low = next32() >>> 6;
      return (high * 67108864 + low) / 9007199254740992;
    },
  };
}
