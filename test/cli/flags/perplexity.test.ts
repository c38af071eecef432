/** The flags of quantlet perplexity. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { perplexity } from '../../../src/cli/perplexity.ts';
import { writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { loadOptions } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, text, golden, without, json, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(perplexity, (effect) => {
  loadOptions(perplexity, effect);
  modelFiles(perplexity, effect);

  interface Measured {
    ppl: number;
    chunks: number;
    n_ctx: number;
    kl?: { kld: { mean: number } };
  }
  const measured = (...args: Args): Promise<Measured> => json<Measured>(perplexity, ...args);
  effect(['file', 'prompt', 'chunks', 'json'], 'which text, how much of it', async () => {
    const all = await measured();
    const args = without(BASE.perplexity, '-f');
    expect(all.n_ctx).toBe(24);
    expect(await measured('--chunks', 1)).toMatchObject({ chunks: 1 });
    expect(all.chunks).toBeGreaterThan(1);
    expect(JSON.parse((await invoke(perplexity, [...args, '-p', readFileSync(text, 'utf8')])).stdout)).toEqual(all);
    expect((await measured('-f', writeTo(folder, 'other.txt', 'a dog ran up to the old tree\n'.repeat(9)))).ppl).not.toBe(all.ppl);
    expect((await invoke(perplexity, without(BASE.perplexity, '--json', 1))).stdout).toMatch(/Final estimate: PPL = /);
  });
  effect(['klBase', 'kl'], 'the logits are written, and compared with', async () => {
    const file = join(folder, 'base.kld');
    expect(await measured('--kl-divergence-base', file)).not.toHaveProperty('kl');
    expect((await measured('--kl-divergence-base', file, '--kl-divergence')).kl!.kld.mean).toBeCloseTo(0, 3);
    expect((await measured('-m', golden('llama-q4_0.gguf'), '--kl-divergence-base', file, '--kl-divergence')).kl!.kld.mean).toBeGreaterThan(
      0.001,
    );
  });
});
