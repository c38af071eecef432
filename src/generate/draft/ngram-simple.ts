/**
 * llama.cpp's ngram-simple: drafts the tokens that followed an earlier occurrence of the last n
 * tokens.
 */
import type { Drafter } from './drafter.ts';
import type { NgramSimpleOptions } from './options.ts';

/**
 * If the earlier occurrence is fewer than m tokens back (the text repeats with a short period), the
 * draft continues with its own tokens.
 */
export function createNgramSimple({ sizeN: n, sizeM, minHits }: Required<NgramSimpleOptions>): Drafter {
  return {
    free: true,
    draft(tokens, most, out) {
      const end = tokens.length;
      const from = out.length;
      if (end <= n) return;
      let found = -1;
      let hits = 0;
      // Use the newest match. lastIndexOf finds positions of its last token much faster than a
      // loop.
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
