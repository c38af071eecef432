/** The flags of quantlet rotate. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { rotate } from '../../../src/cli/rotate.ts';
import { readGGUF } from '../../../src/gguf/read.ts';
import { toBytes } from '../../../src/io/source.ts';
import { llamaModel, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { folder, describeFlags } from './support.ts';

describeFlags(rotate, (effect) => {
  const out = join(folder, 'rotated.gguf');
  const keysOf = async (...args: Args): Promise<string[]> => {
    await invoke(rotate, [...args, llamaModel, out]);
    const { metadata } = await readGGUF(toBytes(readFileSync(out)));
    return [...metadata].flatMap(([key, n]) => (key.startsWith('quantlet.rotation.') ? [`${key.slice(18)} ${String(n)}`] : []));
  };
  effect(['r1', 'r2', 'r3', 'r4', 'rotationSeed'], 'what the file says of itself', async () => {
    expect(await keysOf()).toEqual(['r1 32', 'r2 8', 'seed 0']);
    expect(await keysOf('--r1', '--seed', 5)).toEqual(['r1 32', 'seed 5']);
    expect(await keysOf('--r3', '--r2', '--r4')).toEqual(['r2 8', 'r3 8', 'r4 40', 'seed 0']);
  });
  effect(['learn', 'learnSteps', 'learnRate', 'checkpoint'], 'learned matrices, and a file to go on from', async () => {
    const text = writeTo(folder, 'learn.txt', 'One day a dog saw a big red ball and ran. '.repeat(40));
    const learning: Args = ['--learn', text, '--learn-steps', 2, '--checkpoint', join(folder, 'learned.gguf')];
    expect(await keysOf(...learning)).toEqual(['r1 32', 'r2 8', 'seed 0', 'steps 2']);
    const first = readFileSync(out);
    await keysOf(...learning);
    expect(readFileSync(out).equals(first), 'there is nothing left to do').toBe(true);
    await expect(keysOf(...learning, '--learn-rate', 0.5)).rejects.toMatchObject({
      message: expect.stringMatching(/belongs to another model, text/),
    });
  });
  effect(['threads', 'json'], 'one object', async () => {
    const { stdout } = await invoke(rotate, ['--json', '-t', 2, llamaModel, out]);
    expect(JSON.parse(stdout)).toMatchObject({ input: llamaModel, output: out, r1: 32, r2: 8, seed: 0, untied_bytes: 0, threads: 2 });
  });
});
