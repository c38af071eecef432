/** The flags of quantlet gguf-split. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { ggufHash } from '../../../src/cli/gguf-hash.ts';
import { ggufSplit } from '../../../src/cli/gguf-split.ts';
import { run } from '../../../src/cli/run.ts';
import { readGGUF } from '../../../src/gguf/read.ts';
import { toBytes } from '../../../src/io/source.ts';
import { failure, llamaModel } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { folder, report, describeFlags } from './support.ts';

describeFlags(ggufSplit, (effect) => {
  const there = join(folder, 'split');
  mkdirSync(there);
  const said = async (c: Command, ...args: Args): Promise<string> => (await invoke(c, args)).stdout;
  const hashOf = async (file: string): Promise<string> => (await said(ggufHash, '--no-layer', file)).split(/\s+/)[1];
  effect(
    ['split', 'merge', 'splitMaxTensors', 'splitMaxSize', 'noTensorFirstSplit', 'dryRun'],
    'parts that are the model, and the model again',
    async () => {
      const parts = join(there, 'parts');
      const plan = await said(ggufSplit, '--dry-run', '--split-max-tensors', 5, llamaModel, parts);
      const names = plan
        .trim()
        .split('\n')
        .map((line) => line.split(': ')[0]);
      expect(names.length).toBeGreaterThan(2);
      expect(() => readFileSync(names[0])).toThrow();
      expect(await said(ggufSplit, '--split', '--split-max-tensors', 5, llamaModel, parts)).toBe(plan);
      const answer = await report(run, '--temp', 0);
      expect((await report(run, '--temp', 0, '-m', names[0])).ids).toEqual(answer.ids);
      const whole = join(there, 'whole.gguf');
      await said(ggufSplit, '--merge', names[0], whole);
      expect(await hashOf(whole)).toBe(await hashOf(llamaModel));
      expect((await readGGUF(toBytes(readFileSync(whole)))).metadata).toEqual((await readGGUF(toBytes(readFileSync(llamaModel)))).metadata);
      expect((await failure(() => invoke(ggufSplit, ['--merge', names[0], whole]))).message).toContain('already exists');
      expect(await said(ggufSplit, '--dry-run', '--split-max-size', '1M', llamaModel, parts)).toContain('-00001-of-00001.gguf');
      expect(await said(ggufSplit, '--dry-run', '--no-tensor-first-split', llamaModel, parts)).toMatch(/-00001-of-00002.gguf: 0 tensors/);
    },
  );
});
