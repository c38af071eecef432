/** The shipped model gives native llama.cpp's greedy ids on every build. */
import { readFileSync } from 'node:fs';
import { loadModel } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { RUNS, greedyFault, greedyIds, root, runCli, shippedModel, type Greedy } from '../support.ts';

const greedy = JSON.parse(readFileSync(new URL('test/golden/tiny-stories-q4_0.json', root), 'utf8')) as Greedy;

describe('the model that ships', () => {
  it.each(RUNS)('%s, %i threads: native greedy ids', async (build, threads) => {
    const model = await loadModel(shippedModel, { build, threads, warmUp: false });
    try {
      expect(greedyFault(await greedyIds(model, greedy), greedy)).toBe('');
    } finally {
      await model.dispose();
    }
  });

  it('is what the command line runs without -m', async () => {
    const { code, stdout, stderr } = await runCli(['run', '-p', 'Once upon a time', '-n', 8, '--temp', 0]);
    expect([code, stdout.startsWith('Once upon a time'), stdout.length > 25], stderr).toEqual([0, true, true]);
  });
});
