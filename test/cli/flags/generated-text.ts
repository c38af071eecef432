/** Tests of the flags of run and chat for the text that they generate. */
import { describe, expect } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { tokenize } from '../../../src/cli/tokenize.ts';
import { failure, writeTo } from '../../support.ts';
import { invoke } from '../commands.ts';
import { BASE, folder, json, report, without, type Effect, type RunReport } from './support.ts';

/** Tests of run and chat: the length, the form and the end of their texts. */
export const generatedText = (c: Command, effect: Effect): unknown =>
  describe('text that is made', () => {
    const said = (r: RunReport): string => (c.name === 'run' ? r.text : r.content);

    effect(['predict'], 'so many tokens', async () => {
      expect((await report(c, '-n', 5)).ids).toHaveLength(5);
    });
    effect(['grammar', 'grammarFile', 'jsonSchema', 'jsonSchemaFile'], 'the text follows them; two at once are refused', async () => {
      const gbnf = 'root ::= "ab" [c-e]';
      expect(said(await report(c, '-n', 20, '--grammar', gbnf)).trim()).toMatch(/^ab[cde]$/);
      expect(said(await report(c, '-n', 20, '--grammar-file', writeTo(folder, 'a.gbnf', gbnf))).trim()).toMatch(/^ab[cde]$/);
      expect(JSON.parse(said(await report(c, '-n', 40, '-j', '{"const": [1, "a"]}')))).toEqual([1, 'a']);
      const schema = writeTo(folder, 'schema.json', '{"const": [2]}');
      expect(JSON.parse(said(await report(c, '-n', 40, '-jf', schema)))).toEqual([2]);
      expect((await failure(() => invoke(c, [...BASE[c.name], '--grammar', gbnf, '-j', '{}']))).code).toBe('ERR_USAGE');
    });
    effect(['stop'], 'the text ends before it', async () => {
      const whole = said(await report(c, '-n', 24, '--temp', 0));
      const stop = whole.slice(6, 8);
      const stopped = await report(c, '-n', 24, '--temp', 0, '-r', 'never to be seen', '-r', stop);
      expect([stopped.stop_reason, said(stopped).trimEnd()]).toEqual(['stop', whole.slice(0, whole.indexOf(stop)).trimEnd()]);
    });
    effect(['samplers', 'samplerSeq'], 'which samplers there are, in which order', async () => {
      const args = ['-p', 'the cat the cat the', '-n', 16, '-s', 5, '--temp', 0.5, '--top-k', 3] as const;
      const whole = (await report(c, ...args)).ids;
      expect((await report(c, ...args, '--samplers', 'penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature')).ids).toEqual(
        whole,
      );
      expect((await report(c, ...args, '--sampler-seq', 'edskypmxt')).ids).toEqual(whole);
      const bare = (await report(c, ...args, '--samplers', 'top-k')).ids;
      expect(bare).not.toEqual(whole);
      expect(bare).toEqual((await report(c, ...args, '--sampling-seq', 'k')).ids);
      expect(bare).toEqual((await report(c, ...args, '--temp', 1, '--top-p', 1, '--min-p', 0)).ids);
      // One token is left when the penalties run.
      const late = [...args, '--top-k', 1, '--repeat-penalty', 5] as const;
      const greedy = (await report(c, ...args, '--temp', 0)).ids;
      expect((await report(c, ...late, '--samplers', 'top_k;penalties')).ids).toEqual(greedy);
      expect((await report(c, ...late, '--samplers', 'penalties;TOPK')).ids).not.toEqual(greedy);
    });
    effect(['ignoreEos'], 'continues after the end of the text', async () => {
      const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
      const likely = ['-n', 6, '-l', `${eos}+1000`] as const;
      expect((await report(c, ...likely)).stop_reason).not.toBe('length');
      expect(await report(c, ...likely, '--ignore-eos')).toMatchObject({ stop_reason: 'length', ids: { length: 6 } });
    });
    effect(['json'], 'one object in place of the text', async () => {
      const { stdout } = await invoke(c, [...without(BASE[c.name], '--json', 1), '--temp', 0]);
      const whole = await report(c, '--temp', 0);
      expect(stdout).toContain(said(whole).trim());
      expect(() => JSON.parse(stdout) as unknown).toThrow();
    });
  });
