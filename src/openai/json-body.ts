/** JSON from strangers: how large it may be in every way, found out byte by byte as it arrives, before it is parsed in one go. */
import { HttpError } from './http-error.ts';

/** Levels of lists and objects in each other. */
export const MAX_DEPTH = 256;
/**
 * What a body may cost to parse: an element of a list 1, a string, a list, an object or a field 10, as measured. The most took 20 to 40 ms
 * of processor time (Node 20): half a million numbers, 50 thousand strings, 25 thousand objects with a field each.
 */
export const MAX_COST = 500_000;
const COST_OF_PART = 10;

const QUOTE = 0x22, BACKSLASH = 0x5c, COMMA = 0x2c, OPEN_LIST = 0x5b, CLOSE_LIST = 0x5d, OPEN_OBJECT = 0x7b, CLOSE_OBJECT = 0x7d;

const tooMuch = (what: string): HttpError => new HttpError(413, `The body has more than ${what}. Send less, or in several requests.`, { code: 'body_too_complex' });

/** Looks at the bytes of a JSON text in their order. @throws (the function returned) HttpError 413 */
export function createJsonGauge(): (bytes: Uint8Array) => void {
  let depth = 0, cost = 0, inString = false, escaped = false;
  return (bytes) => {
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (inString) {
        if (escaped) escaped = false;
        else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) inString = false;
        continue;
      }
      switch (byte) {
        case QUOTE: inString = true; cost += COST_OF_PART; break;
        case COMMA: cost++; break;
        case OPEN_LIST: case OPEN_OBJECT: depth++; cost += COST_OF_PART; break;
        case CLOSE_LIST: case CLOSE_OBJECT: depth--; break;
        default: continue;
      }
      if (depth > MAX_DEPTH) throw tooMuch(`${MAX_DEPTH} levels of lists and objects in each other`);
      if (cost > MAX_COST) throw tooMuch(`${MAX_COST} elements, or ${MAX_COST / COST_OF_PART} strings, lists and objects`);
    }
  };
}

/** Characters of all texts in a value of JSON, names of fields among them. */
export function countCharacters(value: unknown): number {
  let sum = 0;
  const work = [value];
  for (let i = 0; i < work.length; i++) {
    const next = work[i];
    if (typeof next === 'string') sum += next.length;
    else if (Array.isArray(next)) {
      for (const item of next) if (typeof item !== 'number') work.push(item);
    } else if (typeof next === 'object' && next !== null) {
      for (const [key, part] of Object.entries(next)) {
        sum += key.length;
        work.push(part);
      }
    }
  }
  return sum;
}
