/** Bytes of a token. */
import { byteOfLetter } from './bpe.ts';
import { tokenByte } from './spm.ts';
import { attr } from './attr.ts';
import { escapedSpace, type Vocab } from './vocab.ts';

const empty = new Uint8Array(0);

/**
 * Returns the bytes of one token (llama.cpp's `token_to_piece`). Control and unknown tokens are
 * empty unless `special`; unused ones are always empty.
 */
export function createPieces(vocab: Vocab): (id: number, special: boolean) => Uint8Array {
  const { tokens, attrs } = vocab;
  const encoder = new TextEncoder();
  const plain = (text: string): Uint8Array => (vocab.escapeSpaces ? encoder.encode(text.replaceAll(escapedSpace, ' ')) : fromLetters(text));
  return (id, special) => {
    const bits = attrs[id];
    const text = tokens[id];
    if (bits & (attr.control | attr.unknown)) return special ? encoder.encode(text) : empty;
    if (bits & attr.userDefined) return encoder.encode(text);
    if (bits & attr.normal) return plain(text);
    if (bits & attr.byte) return Uint8Array.of(Math.max(0, tokenByte(text)));
    return empty;
  };
}

/**
 * GPT-2's byte letters as bytes. Other characters occur only in tokens of damaged files; the output
 * for these is llama.cpp's.
 */
function fromLetters(text: string): Uint8Array {
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const letter of text) {
    const byte = byteOfLetter.get(letter);
    if (byte !== undefined) bytes.push(byte);
    else
      bytes.push(
        ...encoder.encode(`[UNK_BYTE_0x${[...encoder.encode(letter)].map((b) => b.toString(16).padStart(2, '0')).join('')}${text}]`),
      );
  }
  return Uint8Array.from(bytes);
}
