/**
 * One to four byte ranges, flat [low, high, ...]. Any choice of one byte from each range is a
 * character.
 */
export type ByteRanges = readonly number[];

/** The last code point of each UTF-8 length. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff] as const;

/**
 * Converts a range of code points, without surrogates, to sequences of byte ranges. This is the
 * construction of Thompson's and RE2's byte automata: split where the length changes, then where a
 * continuation byte would not run from 80 to BF.
 */
export function utf8Ranges(low: number, high: number, into: ByteRanges[] = []): ByteRanges[] {
  for (const last of LAST_OF_LENGTH) {
    if (low <= last && high > last) {
      utf8Ranges(low, last, into);
      return utf8Ranges(last + 1, high, into);
    }
  }
  for (const bits of [6, 12, 18]) {
    const mask = (1 << bits) - 1;
    if (high <= 0x7f || (low & ~mask) === (high & ~mask)) continue;
    if ((low & mask) !== 0) {
      utf8Ranges(low, low | mask, into);
      return utf8Ranges((low | mask) + 1, high, into);
    }
    if ((high & mask) !== mask) {
      utf8Ranges(low, (high & ~mask) - 1, into);
      return utf8Ranges(high & ~mask, high, into);
    }
  }
  const first = encode(low);
  const final = encode(high);
  into.push(first.flatMap((byte, i) => [byte, final[i]]));
  return into;
}

function encode(code: number): number[] {
  if (code <= 0x7f) return [code];
  if (code <= 0x7ff) return [0xc0 | (code >> 6), 0x80 | (code & 63)];
  if (code <= 0xffff) return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)];
  return [0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)];
}
