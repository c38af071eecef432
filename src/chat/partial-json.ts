/** Values of JSON text that is still being written. */
import { parseJson } from './json.ts';

/**
 * The value of JSON text as far as it goes. Strings end where the text does. Keys without a value,
 * and literals and numbers that may go on, are left out. Undefined if there is no value yet.
 */
export function partialJson(text: string): unknown {
  const whole = parseJson(text);
  if (whole !== undefined) return whole;
  const safe = lastComplete(text);
  const part = text.slice(0, safe.at) + safe.quote;
  return safe.at === 0 ? undefined : parseJson(part + closersOf(part));
}

/** End of the longest part of the text that only lacks closing brackets, after an added `quote`. */
function lastComplete(text: string): { readonly at: number; readonly quote: string } {
  const inObject: boolean[] = [];
  let safe = { at: 0, quote: '' };
  /** The next string is a key. */
  let key = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '{' || char === '[') {
      inObject.push((key = char === '{'));
      safe = { at: at + 1, quote: '' };
    } else if (char === '}' || char === ']') {
      if (inObject.pop() !== (char === '}')) return safe;
      key = false;
      safe = { at: at + 1, quote: '' };
    } else if (char === ',') key = inObject.at(-1) ?? false;
    else if (char === ':') key = false;
    else if (char === '"') {
      const end = stringEnd(text, at);
      if (!key) safe = { at: end.at, quote: end.closed ? '' : '"' };
      if (!end.closed) return safe;
      at = end.at - 1;
    } else if (char.trim() !== '') {
      const literal = /[-+.\w]*/y;
      literal.lastIndex = at;
      const end = at + (literal.exec(text)?.[0].length ?? 0);
      // A literal at the end of the text may go on.
      if (end === at || end === text.length) return safe;
      safe = { at: end, quote: '' };
      at = end - 1;
    }
  }
  return safe;
}

/** The brackets that close all open ones. */
function closersOf(text: string): string {
  const open: string[] = [];
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') at = stringEnd(text, at).at - 1;
    else if (char === '{' || char === '[') open.push(char === '{' ? '}' : ']');
    else if (char === '}' || char === ']') open.pop();
  }
  return open.reverse().join('');
}

/** End of the string at `from`, or of the part of it that is complete: an escape may be cut. */
function stringEnd(text: string, from: number): { at: number; closed: boolean } {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '"') return { at: at + 1, closed: true };
    if (text[at] !== '\\') continue;
    const length = text[at + 1] === 'u' ? 6 : 2;
    if (at + length > text.length) return { at, closed: false };
    at += length - 1;
  }
  return { at: text.length, closed: false };
}
