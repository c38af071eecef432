/** Text from tokens while they are generated. */
import type { Tokenizer } from './tokenizer.ts';

/** Converts tokens to text, one at a time. */
export interface Detokenizer {
  /**
   * Returns the text that is complete with this token: '' while a character still lacks bytes. If
   * generation ends there, the text ends before that character, as llama-server's does.
   */
  push(id: number): string;
}

/**
 * A detokenizer for generation. Pieces are unchanged (the first keeps its leading space, as
 * llama.cpp prints it), and a character is never cut. Bytes that cannot be UTF-8 become U+FFFD, as
 * TextDecoder does it.
 *
 * @param special shows control tokens too
 */
export function createDetokenizer(tokenizer: Pick<Tokenizer, 'pieceBytes'>, { special = false }: { special?: boolean } = {}): Detokenizer {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return { push: (id) => decoder.decode(tokenizer.pieceBytes(id, special), { stream: true }) };
}
