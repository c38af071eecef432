/**
 * Decodes text files: UTF-8 or UTF-16, with or without a byte order mark, which Windows programs
 * write.
 */
import { QuantletError } from '../errors.ts';

const startsWith = (bytes: Uint8Array, ...mark: readonly number[]): boolean => mark.every((byte, i) => bytes[i] === byte);

/**
 * Detects UTF-16 without a byte order mark: in European languages every second byte is usually 0.
 */
function looksLikeUtf16(bytes: Uint8Array): boolean {
  const zeros = [0, 0];
  const looked = bytes.subarray(0, 4096);
  looked.forEach((byte, i) => (zeros[i % 2] += byte === 0 ? 1 : 0));
  return bytes.length >= 4 && bytes.length % 2 === 0 && Math.max(...zeros) > looked.length / 4 && Math.min(...zeros) === 0;
}

/**
 * Decodes a text file and removes its byte order mark, since no grammar, schema or prompt begins
 * with one.
 * @throws ERR_SOURCE naming the file if it is in another encoding
 */
export function decodeText(bytes: Uint8Array, name: string): string {
  const isUtf32 = startsWith(bytes, 0xff, 0xfe, 0, 0) || startsWith(bytes, 0, 0, 0xfe, 0xff);
  const utf16 = startsWith(bytes, 0xff, 0xfe) ? 'utf-16le' : startsWith(bytes, 0xfe, 0xff) ? 'utf-16be' : undefined;
  if (isUtf32 || (!utf16 && looksLikeUtf16(bytes)))
    throw new QuantletError(
      'ERR_SOURCE',
      `${name} is ${isUtf32 ? 'UTF-32' : 'UTF-16 without a byte order mark'}; expected UTF-8, or UTF-16 with its mark. Save it as UTF-8.`,
    );
  return new TextDecoder(utf16).decode(bytes);
}
