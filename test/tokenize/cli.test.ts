import { describe, expect, it } from 'vitest';
import { tokenizeOutput } from '../../src/cli/tokenize.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { readMetadata, shippedModel } from './fixtures.ts';
import { tinyBpe, tinyUgm } from './tiny.ts';

const shipped = createTokenizer(await readMetadata(shippedModel));

describe('quantlet tokenize', () => {
  it('prints a line for each token, bos too', () => {
    // The first two ids of native llama.cpp's greedy story.
    expect(tokenizeOutput(shipped, 'Once upon')).toBe("     1 -> '<s>'\n   415 -> ' Once'\n   440 -> ' upon'\n");
  });

  it('prints ids and their number', () => {
    const ids = shipped.encode('Once upon');
    expect(tokenizeOutput(shipped, 'Once upon', { ids: true })).toBe(`[${ids.join(', ')}]\n`);
    expect(tokenizeOutput(shipped, 'Once upon', { ids: true, noBos: true, showCount: true })).toBe(
      `[${ids.slice(1).join(', ')}]\nTotal number of tokens: ${ids.length - 1}\n`,
    );
    expect(tokenizeOutput(shipped, '', { ids: true, noBos: true })).toBe('[]\n');
  });

  it('parses control tokens unless told not to, and shows half characters as U+FFFD', () => {
    const tokenizer = createTokenizer(tinyBpe('gpt-2'));
    expect(tokenizeOutput(tokenizer, '<|im_start|>')).toBe(`${String(tokenizer.tokenId('<|im_start|>')).padStart(6)} -> '<|im_start|>'\n`);
    expect(tokenizeOutput(tokenizer, '<|im_start|>', { noParseSpecial: true }).split('\n').length).toBeGreaterThan(5);
    expect(tokenizeOutput(tokenizer, '\u0416')).toMatch(/'\ufffd'\n.*'\ufffd'\n/);
  });

  it('a model without bos gets no eos either, as natively', () => {
    const tokenizer = createTokenizer(tinyUgm());
    expect(tokenizer.addEos).toBe(true);
    expect(tokenizeOutput(tokenizer, 'ab', { ids: true })).toBe(`[${tokenizer.tokenId('ab')}]\n`);
  });
});
