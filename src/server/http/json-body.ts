/**
 * Limits for JSON from untrusted clients. They are checked while the bytes arrive, because the
 * parse itself cannot be interrupted.
 */
import { HttpError } from './http-error.ts';

/** Maximum nesting of lists and objects. */
export const MAX_DEPTH = 256;
/**
 * Maximum cost of parsing a body, in elements of lists (about 100 ns each for numbers). Strings,
 * lists and objects cost more. Fields cost most: V8 creates a new shape for an object with a field
 * that no other object has. The limit keeps a parse within tens of milliseconds.
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

/**
 * Approximate bytes of memory per element while its request is answered. In JSON it may take a
 * single byte.
 */
export const BYTES_OF_ELEMENT = 64;

/** Beginnings of images and sounds as text: data: URLs, and PNG, JPEG and WAV files in base64. */
const IMAGES = ['data:image/', 'data:audio/', 'iVBORw0KGgo', '/9j/', 'UklGR'].map((text) => Array.from(text, (c) => c.charCodeAt(0)));
const LONGEST = Math.max(...IMAGES.map(({ length }) => length));

/** True if a text begins like an image or a sound. */
export const isImageText = (text: string): boolean => IMAGES.some((begin) => begin.every((code, i) => text.charCodeAt(i) === code));

/** Error for a request with too many characters. */
export const tooMuchText = (maxTextChars: number): HttpError =>
  new HttpError(413, `The texts of the request have more than ${maxTextChars} characters together. Send less, or in several requests.`, {
    code: 'text_too_large',
  });

/** Measures JSON from its consecutive bytes. */
export interface JsonGauge {
  /** Takes the next bytes and returns the cost of all bytes so far. @throws HttpError 413 */
  (bytes: Uint8Array): number;
  /** Characters so far of strings that are not images, and of strings that begin like images. */
  characters(): { readonly text: number; readonly images: number };
}

/**
 * Creates a gauge.
 * @param maxTextChars maximum UTF-16 characters of all strings together, including names of fields.
 *   Strings that begin like images are left out: the caller has to see where they are
 */
export function createJsonGauge(maxTextChars: number): JsonGauge {
  let depth = 0;
  let cost = 0;
  let text = 0;
  let images = 0;
  let inString = false;
  let escaped = false;
  let inImage = false;
  /** Characters of the string so far, and its first bytes. */
  let length = 0;
  let begun: number[] = [];
  /** Counts n characters of a string, of which `byte` is the next one if it is a whole one. */
  const count = (n: number, byte: number): void => {
    length += n;
    if (inImage) images += n;
    else text += n;
    if (inImage || begun.length === LONGEST) return;
    begun.push(byte);
    if (!IMAGES.some((begin) => begin.length === begun.length && begin.every((code, i) => code === begun[i]))) return;
    inImage = true;
    text -= length;
    images += length;
  };
  const gauge = (bytes: Uint8Array): number => {
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (inString) {
        if (escaped) {
          escaped = false;
          // The four digits of \uXXXX will be counted as four more characters.
          count(byte === LOWER_U ? -3 : 1, byte);
        } else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) inString = false;
        // Continuation bytes count nothing. The first byte of a four-byte character counts as a
        // surrogate pair.
        else if (byte < 0x80 || byte >= 0xc0) count(byte >= 0xf0 ? 2 : 1, byte);
        if (text > maxTextChars) throw tooMuchText(maxTextChars);
        continue;
      }
      // prettier-ignore
      switch (byte) {
        case QUOTE: inString = true; inImage = false; length = 0; begun = []; cost += COST_OF_STRING; break;
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
  return Object.assign(gauge, { characters: () => ({ text, images }) });
}
