/**
 * Texts and native llama.cpp's ids for them: small vocabularies of every kind, and large ones of
 * ../shared if present.
 */
import { describe, expect, it } from 'vitest';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { readMetadata, sharedVectors } from './fixtures.ts';
import { golden, hashOf, MIXED_TEXT, PRE_TOKENIZERS, preTokenizerHashes, preTokenizerVocabulary, TEXTS, VOCABULARIES } from './vectors.ts';

function check(metadata: TokenizerMetadata, inputs: readonly string[], outputs: readonly (readonly number[])[], lossless: boolean): void {
  const start = process.cpuUsage();
  const tokenizer = createTokenizer(metadata);
  expect(inputs.length).toBe(outputs.length);
  inputs.forEach((input, i) => {
    const ids = tokenizer.encode(input, { addSpecial: false });
    expect({ i, input, ids }).toEqual({ i, input, ids: outputs[i] });
    // SentencePiece writes a space as U+2581, so U+2581 in a text is decoded as a space.
    if (lossless) expect(tokenizer.decode(ids)).toBe(tokenizer.model === 'llama' ? input.replaceAll('\u2581', ' ') : input);
  });
  // Ready within a second of this process's own time, which a busy machine hardly changes. 128000
  // tokens typically take 0.3 s.
  const { user, system } = process.cpuUsage(start);
  expect((user + system) / 1000).toBeLessThan(1000);
}

describe("native llama.cpp's ids, and back", () => {
  const want = golden();
  it.each(VOCABULARIES.map((v) => [v.name, v] as const))(`%s: ${TEXTS.length} texts`, (name, { metadata, lossless }) =>
    check(metadata, TEXTS, want[name], lossless),
  );

  // WordPiece is in wpm-ugm.test.ts, because native's ids are wrong.
  for (const { name, file, inputs, outputs } of sharedVectors().filter((v) => v.name !== 'bert-bge')) {
    it(`${name} of ../shared/vocab: ${inputs.length} texts`, async () => check(await readMetadata(file), inputs, outputs, true));
  }
});

it("every pre-tokenizer of llama.cpp is present and gives native's ids", () => {
  const got = PRE_TOKENIZERS.map((pre) => {
    const { encode, warnings } = createTokenizer(preTokenizerVocabulary(pre));
    return [pre, warnings.length > 0 ? warnings.join() : hashOf(encode(MIXED_TEXT, { addSpecial: false }))];
  });
  expect(Object.fromEntries(got)).toEqual(preTokenizerHashes());
});
