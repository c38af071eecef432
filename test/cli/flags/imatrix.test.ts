/** The flags of quantlet imatrix. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { imatrix } from '../../../src/cli/imatrix.ts';
import { toBytes } from '../../../src/io/source.ts';
import { readImatrixSums, type ImatrixSums } from '../../../src/quantize/imatrix.ts';
import { failure } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { loadOptions } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, text, json, without, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(imatrix, (effect) => {
  loadOptions(imatrix, effect);
  modelFiles(imatrix, effect);

  const measured = (...args: Args): Promise<{ ppl?: number; chunks: number; matrices: number }> => json(imatrix, ...args);
  const written = (name = 'imatrix.gguf'): Promise<ImatrixSums> => readImatrixSums(toBytes(readFileSync(join(folder, name))));
  effect(['file', 'prompt', 'chunks', 'fromChunk', 'ppl', 'json'], 'which text, how much of it', async () => {
    const all = await measured();
    expect((await written()).datasets).toEqual([text]);
    expect(all).toMatchObject({ ppl: expect.any(Number) as number });
    expect(all.chunks).toBeGreaterThan(4);
    expect(await measured('--no-ppl')).not.toHaveProperty('ppl');
    const said = await invoke(imatrix, [...without(BASE.imatrix, '--json', 1), '--chunk', 1, '--chunks', 3]);
    expect(said.stdout).toMatch(/^\[1\][\d.]+,.*\[3\][\d.]+,\nFinal estimate: PPL = .*\nwrote .*: 14 matrices, 3 windows of 24 tokens\n$/);
    expect(await measured('-p', readFileSync(text, 'utf8'))).toEqual(all);
    expect((await written()).datasets).toEqual([]);
  });
  effect(['imatrixFile', 'outputFormat'], 'where it is written, and how', async () => {
    await measured('-o', join(folder, 'named.dat'), '--output-format', 'dat');
    expect(readFileSync(join(folder, 'named.dat')).readInt32LE()).toBe(14);
  });
  effect(['processOutput'], 'the output matrix is measured too', async () => {
    expect([(await measured()).matrices, (await measured('--process-output')).matrices]).toEqual([14, 15]);
    expect((await written()).entries.get('output.weight')!.counts).toEqual((await written()).entries.get('blk.0.attn_q.weight')!.counts);
  });
  effect(['parseText'], 'control tokens are read', async () => {
    const control: Args = ['-p', '</s>'.repeat(30)];
    expect((await measured(...control)).chunks).toBeGreaterThan((await measured(...control, '--parse-special')).chunks);
  });
  effect(['inFile'], 'what was measured before is added', async () => {
    const before = join(folder, 'before.gguf');
    expect((await measured('-o', before, '--chunks', 2)).chunks).toBe(2);
    expect((await measured('--in-file', before, '--in-file', before, '--chunks', 1)).chunks).toBe(5);
  });
  effect(['outputFrequency', 'saveFrequency'], 'how often it is written, and copied', async () => {
    const kept = (): string[] => readdirSync(folder).filter((name) => name.startsWith('often'));
    await measured('-b', 24, '-o', join(folder, 'often.gguf'), '--save-frequency', 2, '--output-frequency', 100, '--chunks', 5);
    expect(kept()).toEqual(['often.gguf', 'often.gguf.at_2', 'often.gguf.at_4']);
    const stop = new AbortController();
    const args = [...without(BASE.imatrix, '--json', 1), '-b', 24, '-o', join(folder, 'early.gguf'), '--output-frequency', 2];
    const stdout = vi
      .spyOn(process.stdout, 'write')
      .mockImplementation((chunk) => (String(chunk).startsWith('[3]') && stop.abort(new Error('enough')), true));
    expect((await failure(() => imatrix.run(args.map(String), stop.signal))).message).toBe('enough');
    stdout.mockRestore();
    expect((await written('early.gguf')).chunkCount).toBe(2);
  });
});
