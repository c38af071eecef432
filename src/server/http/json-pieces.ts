/** Writes large values as JSON with pauses: JSON.stringify would block the event loop. */
import type { Work } from '../../slices.ts';

/** Approximate number of characters between two pauses. */
const PIECE = 16 * 1024;

/**
 * A list whose elements are converted to JSON as they are added. The log probabilities of many
 * tokens take ten times the memory of their JSON.
 */
export class JsonList {
  readonly items: string[] = [];

  /** @returns the number of characters written */
  push(value: unknown): number {
    return this.items[this.items.push(JSON.stringify(value)) - 1].length;
  }

  toJSON(): unknown {
    return JSON.parse(`[${this.items.join(',')}]`);
  }
}

/**
 * A value that is JSON text already. It is copied unchanged, so its numbers keep their digits. Only
 * jsonPieces() can write it.
 */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The text of JSON.stringify, in pieces. */
export function* jsonPieces(value: unknown): Work<string[]> {
  const pieces: string[] = [];
  yield* write(value, pieces);
  return pieces;
}

/**
 * Approximate number of characters of a value's JSON; stops counting at `most`. JsonText counts as
 * infinite, because JSON.stringify must not see it.
 */
function weigh(value: unknown, most: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  if (value instanceof JsonText) return Infinity;
  let sum = 2;
  for (const part of value instanceof JsonList ? value.items : Object.values(value)) {
    if ((sum += weigh(part, most - sum)) > most) break;
  }
  return sum;
}

function* write(value: unknown, pieces: string[]): Work<void> {
  yield;
  if (value instanceof JsonList) {
    // Not as arguments of one push call: they could overflow the stack.
    for (const [i, item] of value.items.entries()) pieces.push(i === 0 ? '[' : ',', item);
    pieces.push(value.items.length === 0 ? '[]' : ']');
  } else if (value instanceof JsonText) pieces.push(value.text);
  else if (weigh(value, PIECE) <= PIECE) pieces.push(JSON.stringify(value));
  else if (typeof value === 'string') {
    pieces.push('"');
    // If a cut splits a surrogate pair, both halves are written as escapes, which form the same
    // character.
    for (let from = 0; from < value.length; from += PIECE) {
      pieces.push(JSON.stringify(value.slice(from, from + PIECE)).slice(1, -1));
      yield;
    }
    pieces.push('"');
  } else if (Array.isArray(value)) yield* writeList(value, pieces);
  else {
    let before = '{';
    for (const [key, part] of Object.entries(value as object)) {
      if (part === undefined) continue;
      pieces.push(`${before}${JSON.stringify(key)}:`);
      yield* write(part, pieces);
      before = ',';
    }
    pieces.push('}');
  }
}

/** Small neighbouring elements are written together. */
function* writeList(list: readonly unknown[], pieces: string[]): Work<void> {
  for (let from = 0, to = 0; from < list.length; from = to) {
    pieces.push(from === 0 ? '[' : ',');
    for (let left = PIECE; to < list.length; to++) {
      left -= weigh(list[to], left);
      if (left < 0) break;
    }
    if (to > from) pieces.push(JSON.stringify(list.slice(from, to)).slice(1, -1));
    else yield* write(list[to++], pieces);
    yield;
  }
  pieces.push(']');
}

/** Elements between two pauses. */
const STRIDE = 512;

/** The results of `map` for a list's elements, as a JSON list in pieces. */
export function* jsonList<T>(list: readonly T[], map: (item: T, index: number) => unknown, stride = STRIDE): Work<string[]> {
  const pieces: string[] = ['['];
  for (let from = 0; from < list.length; from += stride) {
    const part = list.slice(from, from + stride).map((item, i) => map(item, from + i));
    pieces.push(`${from === 0 ? '' : ','}${JSON.stringify(part).slice(1, -1)}`);
    yield;
  }
  pieces.push(']');
  return pieces;
}
