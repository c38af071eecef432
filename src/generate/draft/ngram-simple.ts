/** llama.cpp's ngram-simple: what came behind the last n tokens when they were there before. */
import type { Drafter } from './drafter.ts';
import type { NgramSimpleOptions } from './options.ts';

/** Where the m tokens reach into the draft itself (the text goes in a circle shorter than m) it goes on with its own tokens. */
export function createNgramSimple({ sizeN: n, sizeM, minHits }: Required<NgramSimpleOptions>): Drafter {
  return {
    free: true,
    draft(tokens, most, out) {
      const end = tokens.length;
      const from = out.length;
      if (end <= n) return;
      let found = -1;
      let hits = 0;
      // The newest match counts; lastIndexOf is far quicker than a loop at finding where its last token may be.
      for (
        let last = tokens.lastIndexOf(tokens[end - 1], end - 2);
        last >= n - 1 && hits < minHits;
        last = last > 0 ? tokens.lastIndexOf(tokens[end - 1], last - 1) : -1
      ) {
        let same = 1;
        while (same < n && tokens[last - same] === tokens[end - 1 - same]) same++;
        if (same < n) continue;
        if (hits++ === 0) found = last;
      }
      if (found < 0 || hits < minHits) return;
      for (let i = 1; i <= Math.min(sizeM, most); i++) out.push(found + i < end ? tokens[found + i] : out[from + found + i - end]);
    },
  };
}
