/** Places of the tokens of a sequence that may have images. */
import type { TokenPlace } from './batch.ts';
import { indexInImage, isImage, type ImageTokens } from './image-tokens.ts';

/** A place, and the number of tokens from here on that the token sees, if it sees any ahead. */
type SeenPlace = TokenPlace & { readonly sees: number };

/**
 * Follows a sequence from a cell on. With M-RoPE, an image takes fewer positions than cells, so
 * the tokens after it have lower positions.
 */
export class Places {
  private readonly images: ImageTokens;
  /** Cells minus positions at the next token of text. */
  private lag: number;
  private cell: number;

  /** @param tokens the sequence so far, of which the first `cell` tokens were followed */
  constructor(images: ImageTokens, tokens: readonly number[], cell: number) {
    this.images = images;
    this.cell = cell;
    this.lag = images.lag(tokens, cell);
  }

  /** Place of the next token. */
  next(id: number): SeenPlace {
    const cell = this.cell++;
    if (!isImage(id)) {
      const pos = cell - this.lag;
      return { pos, height: pos, width: pos, extra: 0, sees: 0 };
    }
    const run = this.images.find(id);
    const { columns, nTokens, nPositions, causal, rows } = run;
    const index = indexInImage(id);
    const size = rows!.length / nTokens;
    const row = rows!.subarray(index * size, (index + 1) * size);
    const begin = cell - index - this.lag;
    if (index === nTokens - 1) this.lag += nTokens - nPositions;
    const sees = causal ? 0 : nTokens - index;
    const pos = begin + index;
    if (columns === 0) return { pos, height: pos, width: pos, extra: pos, row, sees };
    return { pos: begin, height: begin + Math.floor(index / columns), width: begin + (index % columns), extra: 0, row, sees };
  }
}
