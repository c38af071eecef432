/** SentencePiece's precompiled normalization rules. */
import { QuantletError } from '../errors.ts';

/**
 * Longest rule that applies to the bytes at `at`: the number of bytes it consumes, and its
 * replacement; undefined if no rule applies.
 */
export type Charsmap = (text: Uint8Array, at: number) => { length: number; replacement: Uint8Array } | undefined;

const damaged = (what: string): never => {
  throw new QuantletError('ERR_GGUF_INVALID', `tokenizer.ggml.precompiled_charsmap is damaged: ${what}; convert the model again`);
};

/**
 * Reads SentencePiece's precompiled normalization: u32 length of a double array, the array, then
 * NUL-terminated replacements. The array is a trie over bytes, XOR-compressed (Kanda 2018). An
 * entry has BASE in bits 10-30 (shifted by 8 if bit 9 is set). Bit 8 says that BASE leads to a
 * value. Bits 0-7 (and 31) must repeat the byte that led here.
 */
export function readCharsmap(bytes: Uint8Array): Charsmap {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 4) damaged(`${bytes.length} bytes`);
  const arrayBytes = view.getUint32(0, true);
  if (4 + arrayBytes >= bytes.length) damaged(`an array of ${arrayBytes} bytes in ${bytes.length}`);
  const entries = arrayBytes >>> 2;
  const replacements = bytes.subarray(4 + arrayBytes);
  const entry = (at: number): number => (at < entries ? view.getUint32(4 + at * 4, true) : damaged(`entry ${at} of ${entries}`));
  const base = (node: number): number => ((node >>> 10) << ((node & 0x200) >>> 6)) >>> 0;

  return (text, at) => {
    if (entries === 0) return undefined;
    let index = base(entry(0));
    let length = 0;
    let value = 0;
    for (let i = at; i < text.length && text[i] !== 0; i++) {
      index = (index ^ text[i]) >>> 0;
      const node = entry(index);
      if ((node & 0x800000ff) !== text[i]) break;
      index = (index ^ base(node)) >>> 0;
      if (node & 0x100) {
        length = i - at + 1;
        value = entry(index) & 0x7fffffff;
      }
    }
    if (length === 0) return undefined;
    const end = replacements.indexOf(0, value);
    if (value >= replacements.length || end < 0) damaged(`replacement at ${value} of ${replacements.length}`);
    return { length, replacement: replacements.subarray(value, end) };
  };
}
