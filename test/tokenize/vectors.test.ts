import { describe, expect, it } from 'vitest';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { hasShared, readMetadata, sharedVectors } from './fixtures.ts';

describe.runIf(hasShared)('every vector of ../shared/vocab', () => {
  for (const { name, file, inputs, outputs } of sharedVectors()) {
    it(`${name}: ${inputs.length} texts, id for id, and back`, async () => {
      const metadata = await readMetadata(file);
      const start = performance.now();
      const tokenizer = createTokenizer(metadata);
      inputs.forEach((input, i) => {
        const ids = tokenizer.encode(input, { addSpecial: false });
        expect({ i, input, ids }).toEqual({ i, input, ids: outputs[i] });
        // WordPiece forgets case, accents and spaces.
        if (tokenizer.model !== 'bert') expect(tokenizer.decode(ids)).toBe(input);
      });
      // A vocabulary of 152000 tokens and its first words took 0.15 s where this was written.
      expect(performance.now() - start).toBeLessThan(1000);
    });
  }
});
