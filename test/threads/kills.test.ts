/**
 * A few seconds of the campaign that kills random workers (`npm run fuzz -- --only workers` runs
 * longer).
 */
import { expect, it } from 'vitest';
import { newSeed, told } from '../fuzz/campaign.ts';
import { campaign } from '../fuzz/workers.ts';

it.each(['simd-threads', 'relaxed-threads'] as const)('%s: a model is usable again after whichever workers were killed', async (build) => {
  const result = await campaign({ build, threads: 3, seed: newSeed(), seconds: 2, cases: Infinity });
  expect(told('workers', result)).toBe('');
  expect(result.cases).toBeGreaterThan(0);
});
