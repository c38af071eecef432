/** Long texts of a request, made known to the tokenizer before they are tokenized in one go. */
import type { Backend } from './backend.ts';

/** Characters of one turn. */
const SLICE = 1024;
/** Characters of a request that are prepared; what is longer hardly fits a context. */
const MOST = 256 * 1024;

function* stringsOf(value: unknown): Generator<string, void> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) yield* stringsOf(part);
}

/**
 * Tokenizers remember the words they have met: 16 KiB of English cost 2 to 12 ms of processor time at first and less than 2 ms again
 * (five vocabularies of 30 to 152 thousand tokens, Node 20). So a long text goes through in slices first, of 4 ms at most, the event loop
 * having its turn after each, and holds nobody up when it is tokenized as a whole.
 * @throws signal.reason
 */
export async function prepareTexts(backend: Pick<Backend, 'tokenize'>, body: object, signal: AbortSignal): Promise<void> {
  let prepared = 0;
  for (const text of stringsOf(body)) {
    if (text.length <= SLICE) continue;
    for (let at = 0; at < text.length && prepared < MOST; ) {
      // Slices end before a space, where words begin.
      const space = text.lastIndexOf(' ', at + SLICE), end = space > at ? space : at + SLICE;
      backend.tokenize(text.slice(at, end), { addSpecial: false });
      prepared += end - at;
      at = end;
      await new Promise((resolve) => setTimeout(resolve, 0));
      signal.throwIfAborted();
    }
  }
}
