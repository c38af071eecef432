/**
 * A few seconds of new random operator graphs on every build that this Node runs
 * (test/fuzz/operators.ts). `npm run fuzz -- --only operators` runs longer.
 */
import { expect, it } from 'vitest';
import { newSeed, told } from '../fuzz/campaign.ts';
import { campaign } from '../fuzz/operators.ts';
import { BUILDS } from '../builds.ts';
import { isThreaded } from '../../src/wasm/load.ts';

const SECONDS = 7;
const seed = newSeed();

it.each(BUILDS)('%s', async (build) => {
  const result = await campaign({ build, threads: isThreaded(build) ? 3 : 1, seed, seconds: SECONDS / BUILDS.length, cases: Infinity });
  expect(told('operators', result)).toBe('');
});
