/** Large values as JSON, written with pauses: half a million ids take JSON.stringify 30 ms, two thousand vectors a second. */
import type { Work } from '../slices.ts';

/** Characters, about, between two places where writing may pause. */
const PIECE = 16 * 1024;

/** A list whose elements are written as they come: what a thousand tokens' log probabilities are made of takes ten times the memory of their JSON. */
export class JsonList {
  readonly items: string[] = [];

  /** @returns the characters that were written */
  push(value: unknown): number {
    return this.items[this.items.push(JSON.stringify(value)) - 1].length;
  }

  toJSON(): unknown {
    return JSON.parse(`[${this.items.join(',')}]`);
  }
}

/** A value that is JSON already, and stays as it is: its numbers keep their digits. Nothing but jsonPieces() may write it. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The value as JSON.stringify writes it, in pieces. */
export function* jsonPieces(value: unknown): Work<string[]> {
  const pieces: string[] = [];
  yield* write(value, pieces);
  return pieces;
}

/** About how many characters a value is written with; stops counting at `most`. JSON text weighs more than anything: it is written by itself. */
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
    // (Not as arguments of push: they may be more than a stack holds.)
    for (const [i, item] of value.items.entries()) pieces.push(i === 0 ? '[' : ',', item);
    pieces.push(value.items.length === 0 ? '[]' : ']');
  } else if (value instanceof JsonText) pieces.push(value.text);
  else if (weigh(value, PIECE) <= PIECE) pieces.push(JSON.stringify(value));
  else if (typeof value === 'string') {
    pieces.push('"');
    // Half of a surrogate pair is written as an escape, and two such escapes are the character again.
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

/** Neighbours that are small together are written together. */
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

/** Elements between two places where writing may pause. */
const STRIDE = 512;

/** The list of what `map` makes of each, as pieces of JSON. */
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
