/** The flags of quantlet tokenize. */
import { expect } from 'vitest';
import { tokenize } from '../../../src/cli/tokenize.ts';
import { llamaModel, runCli, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, describeFlags } from './support.ts';

describeFlags(tokenize, (effect) => {
  modelFiles(tokenize, effect);

  const ids = async (...args: Args): Promise<number[]> =>
    JSON.parse((await invoke(tokenize, [...BASE.tokenize, ...args])).stdout) as number[];
  effect(
    ['text', 'file', 'escape', 'noBos', 'noParseSpecial', 'ids', 'showCount', 'verbose'],
    'which text, how it is read and shown',
    async () => {
      const real = await ids('-p', 'a\nb');
      expect(await ids('-p', 'a\\nb', '-e')).toEqual(real);
      expect(await ids('-p', 'a\\nb', '--no-escape')).not.toEqual(real);
      expect(await ids('-p', 'a\nb', '--no-bos')).toEqual(real.slice(1));
      expect((await invoke(tokenize, [...BASE.tokenize, '-v', '--temp', 1])).stderr).toMatch(/--temp has no effect here/);
      expect((await ids('-p', '</s>', '--no-parse-special')).length).toBeGreaterThan((await ids('-p', '</s>')).length);
      const file = await invoke(tokenize, ['-m', llamaModel, '--ids', '-f', writeTo(folder, 'tokens.txt', 'a\nb')]);
      expect(JSON.parse(file.stdout)).toEqual(real);
      const lines = (await invoke(tokenize, ['-m', llamaModel, '-p', 'a\nb', '--show-count'])).stdout.trim().split('\n');
      expect(lines.filter((line) => /^ *\d+ -> '/.test(line))).toHaveLength(real.length);
      expect(lines.at(-1)).toBe(`Total number of tokens: ${real.length}`);
    },
  );
  effect(['stdin'], 'standard input', async () => {
    const { code, stdout } = await runCli(['tokenize', '-m', llamaModel, '--ids', '--stdin'], { input: 'a\nb' });
    expect([code, JSON.parse(stdout)]).toEqual([0, await ids('-p', 'a\nb')]);
  });
});
