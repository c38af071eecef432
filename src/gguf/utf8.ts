/** Short UTF-8 strings without the cost of a TextDecoder. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Up to here a loop beats the fixed cost of a TextDecoder call; most tokens and merges are shorter. V8 keeps a string of 13 characters or more
 * that grew a character at a time as a chain of its pieces: 427 bytes for 24 letters, where the decoder's take 51.
 */
const SHORT = 12;

/** Bytes [start, end) as text; bad UTF-8 becomes U+FFFD, a byte order mark stays. */
export const decodeUtf8 = (bytes: Uint8Array, start: number, end: number): string => {
  if (end - start > SHORT) return decoder.decode(bytes.subarray(start, end));
  let text = '';
  for (let i = start; i < end; i++) {
    const byte = bytes[i];
    if (byte < 0x80) {
      text += String.fromCharCode(byte);
      continue;
    }
    // Two bytes, as the letters of byte-level BPE have; what is longer, or no UTF-8, goes to the decoder.
    if (byte < 0xc2 || byte > 0xdf || i + 1 >= end || (bytes[i + 1] & 0xc0) !== 0x80) return decoder.decode(bytes.subarray(start, end));
    text += String.fromCharCode(((byte & 0x1f) << 6) | (bytes[++i] & 0x3f));
  }
  return text;
};
