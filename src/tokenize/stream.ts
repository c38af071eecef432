/** Text out of tokens as they are generated. */
import type { Tokenizer } from './tokenizer.ts';

/** Text from tokens as they come. */
export interface Detokenizer {
  /**
   * The text that is complete with this token: '' while a character still lacks bytes. A text that ends there, cut by a limit or by its
   * reader, ends before that character, as llama-server's does.
   */
  push(id: number): string;
}

/**
 * A detokenizer for generation: pieces as they are (the first keeps its leading space, as llama.cpp prints it), never half a character;
 * bytes that cannot be UTF-8 become U+FFFD as TextDecoder does it.
 *
 * @param special shows control tokens too
 */
export function createDetokenizer(tokenizer: Pick<Tokenizer, 'pieceBytes'>, { special = false }: { special?: boolean } = {}): Detokenizer {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return { push: (id) => decoder.decode(tokenizer.pieceBytes(id, special), { stream: true }) };
}
