/**
 * A few seconds of random cases with new seeds (test/fuzz/kernels.ts). QUANTLET_FUZZ_SEED repeats a
 * case; `npm run fuzz` runs longer.
 */
import { describe, expect, it } from 'vitest';
import { newSeed, told } from '../fuzz/campaign.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { campaign } from '../fuzz/kernels.ts';
import { BUILDS } from './harness.ts';

// Builds with threads have the same kernels: self-test.test.ts compares their checksums.
describe.each(BUILDS.filter((build) => !isThreaded(build)))('kernels of %s', (build) => {
  it('agree with f64, give the same bits for any columns and rows, and write nothing else', async () => {
    const result = await campaign({ build, threads: 1, seed: newSeed(), seconds: 1, cases: Infinity });
    expect(told('kernels', result)).toBe('');
    expect(result.cases).toBeGreaterThan(0);
  });
});
