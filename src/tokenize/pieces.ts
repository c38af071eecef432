import { tokenByte } from './spm.ts';
import { attr, type Vocab } from './vocab.ts';

const empty = new Uint8Array(0);

/** The bytes of one token (llama.cpp's `token_to_piece`): nothing for control and unknown tokens unless `special`, nothing for unused ones. */
export function createPieces(vocab: Vocab): (id: number, special: boolean) => Uint8Array {
  const { tokens, attrs } = vocab;
  const encoder = new TextEncoder();
  const plain = (text: string): Uint8Array => encoder.encode(vocab.escapeSpaces ? text.replaceAll('\u2581', ' ') : text);
  return (id, special) => {
    const bits = attrs[id], text = tokens[id];
    if (bits & (attr.control | attr.unknown)) return special ? encoder.encode(text) : empty;
    if (bits & attr.userDefined) return encoder.encode(text);
    if (bits & attr.normal) return plain(text);
    if (bits & attr.byte) return Uint8Array.of(Math.max(0, tokenByte(text)));
    return empty;
  };
}
