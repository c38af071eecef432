/** JSON from strangers: how large it may be in every way, found out byte by byte as it arrives, before it is parsed in one go. */
import { HttpError } from './http-error.ts';

/** Levels of lists and objects in each other. */
export const MAX_DEPTH = 256;
/**
 * What a body may cost to parse, in elements of lists: about 100 ns each for numbers. Strings, lists and objects cost more, and fields most: an object
 * whose field no other object has gets a shape of its own, which takes V8 1.7 us. The most that passes took 10 to 23 ms (Node 20).
 */
export const MAX_COST = 180_000;
const COST_OF_STRING = 5;
const COST_OF_LIST = 2;
const COST_OF_FIELD = 5;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LOWER_U = 0x75;

const tooMuch = (what: string): HttpError =>
  new HttpError(413, `The body has more than ${what}. Send less, or in several requests.`, { code: 'body_too_complex' });

/** Bytes of memory for each such element while its request is answered, about: in JSON it may have been one. */
export const BYTES_OF_ELEMENT = 64;

/**
 * Looks at the bytes of a JSON text in their order.
 * @param maxTextChars characters (as UTF-16 counts them) of all strings together, names of fields among them
 * @returns a function of the next bytes, which gives the cost of all so far
 * @throws (that function) HttpError 413
 */
export function createJsonGauge(maxTextChars: number): (bytes: Uint8Array) => number {
  let depth = 0;
  let cost = 0;
  let characters = 0;
  let inString = false;
  let escaped = false;
  return (bytes) => {
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (inString) {
        if (escaped) {
          escaped = false;
          // The four digits of \uXXXX come as four characters more.
          if (byte === LOWER_U) characters -= 4;
        } else if (byte === BACKSLASH) {
          escaped = true;
          characters++;
        } else if (byte === QUOTE) inString = false;
        // Bytes that go on with a character count nothing; the first of four stands for a pair of surrogates.
        else if (byte < 0x80 || byte >= 0xc0) characters += byte >= 0xf0 ? 2 : 1;
        if (characters > maxTextChars)
          throw new HttpError(
            413,
            `The texts of the request have more than ${maxTextChars} characters together. Send less, or in several requests.`,
            { code: 'text_too_large' },
          );
        continue;
      }
      // prettier-ignore
      switch (byte) {
        case QUOTE: inString = true; cost += COST_OF_STRING; break;
        case COLON: cost += COST_OF_FIELD; break;
        case COMMA: cost++; break;
        case OPEN_LIST: case OPEN_OBJECT: depth++; cost += COST_OF_LIST; break;
        case CLOSE_LIST: case CLOSE_OBJECT: depth--; break;
        default: continue;
      }
      if (depth > MAX_DEPTH) throw tooMuch(`${MAX_DEPTH} levels of lists and objects in each other`);
      if (cost > MAX_COST)
        throw tooMuch(
          `${MAX_COST} elements (a string counts ${COST_OF_STRING}, a field ${COST_OF_FIELD} beside its name and its value, a list or an object ${COST_OF_LIST})`,
        );
    }
    return cost;
  };
}
