/** Decoder of short UTF-8 strings that avoids the cost of a TextDecoder. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Longest string in bytes for the loop, which up to here is faster than a TextDecoder call; most
 * tokens and merges are shorter. Also a limit on memory: V8 stores a string of 13 or more
 * characters that was built by appending as a chain of pieces, which takes eight times the memory.
 */
const SHORT = 12;

/** Bytes [start, end) as text. Invalid UTF-8 becomes U+FFFD; a byte order mark is kept. */
export const decodeUtf8 = (bytes: Uint8Array, start: number, end: number): string => {
  if (end - start > SHORT) return decoder.decode(bytes.subarray(start, end));
  let text = '';
  for (let i = start; i < end; i++) {
    const byte = bytes[i];
    if (byte < 0x80) {
      text += String.fromCharCode(byte);
      continue;
    }
    // Decode two-byte characters here, such as the letters of byte-level BPE. Longer or invalid
    // ones go to the decoder.
    if (byte < 0xc2 || byte > 0xdf || i + 1 >= end || (bytes[i + 1] & 0xc0) !== 0x80) return decoder.decode(bytes.subarray(start, end));
    text += String.fromCharCode(((byte & 0x1f) << 6) | (bytes[++i] & 0x3f));
  }
  return text;
};
