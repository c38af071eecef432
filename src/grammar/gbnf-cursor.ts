/** A cursor in the text of a grammar, with readers for its smallest parts. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { MAX_CODE_POINT, isSurrogate } from './ranges.ts';

/** Line and column in the text of a grammar; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/**
 * Makes the error for a position.
 * @returns QuantletError ERR_GRAMMAR with line and column
 */
export function grammarError(at: Position, message: string): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `grammar, line ${at.line}, column ${at.column}: ${message}`);
}

/** Longest name of a rule, in characters. */
const MAX_NAME = 1000;
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-' };
const HEX_ESCAPES: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
/** Number of characters between two pauses. */
const STRIDE = 4096;

/** Letters, digits, _ and -. */
export const isOfName = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || (code >= 0x30 && code <= 0x39) || code === 0x5f || code === 0x2d;

/**
 * Offsets of line starts. Every reference has a position, and counting lines for each would take
 * quadratic time.
 */
function lineStarts(source: string): number[] {
  const starts = [0];
  for (let at = source.indexOf('\n'); at >= 0; at = source.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** A cursor in the text of a grammar. */
export class GbnfCursor {
  readonly source: string;
  /** Offset of the character that is read next. */
  pos = 0;
  readonly #lines: readonly number[];
  #pauseAt = STRIDE;

  constructor(source: string) {
    this.source = source;
    this.#lines = lineStarts(source);
  }

  /** The next character; undefined at the end. */
  get next(): string | undefined {
    return this.source[this.pos];
  }

  get atEnd(): boolean {
    return this.pos >= this.source.length;
  }

  /** True about once every STRIDE characters; the caller then pauses. */
  pauseIsDue(): boolean {
    if (this.pos < this.#pauseAt) return false;
    this.#pauseAt = this.pos + STRIDE;
    return true;
  }

  position(at = this.pos): Position {
    let low = 0;
    let high = this.#lines.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#lines[middle] <= at) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: at - this.#lines[low] + 1 };
  }

  /** @throws QuantletError ERR_GRAMMAR */
  fail(expected: string, at = this.pos): never {
    const found = at >= this.source.length ? 'the end' : JSON.stringify(String.fromCodePoint(this.source.codePointAt(at)!));
    throw grammarError(this.position(at), `found ${found}; expected ${expected}`);
  }

  /** Reads `text` if it comes next. */
  take(text: string): boolean {
    if (!this.source.startsWith(text, this.pos)) return false;
    this.pos += text.length;
    return true;
  }

  expect(text: string, expected = text): void {
    if (!this.take(text)) this.fail(expected);
  }

  /** Skips blanks and comments, and line ends if `newlines`. */
  *skipSpace(newlines: boolean): Work<void> {
    const { source } = this;
    for (;;) {
      if (this.pauseIsDue()) yield;
      const c = source[this.pos];
      if (c === '#') while (this.pos < source.length && source[this.pos] !== '\n' && source[this.pos] !== '\r') this.pos++;
      else if (c === ' ' || c === '\t' || (newlines && (c === '\n' || c === '\r'))) this.pos++;
      else return;
    }
  }

  name(expected: string): string {
    const start = this.pos;
    while (this.pos - start <= MAX_NAME && isOfName(this.source.charCodeAt(this.pos))) this.pos++;
    if (this.pos === start) this.fail(expected);
    if (this.pos - start > MAX_NAME) this.fail(`a name of at most ${MAX_NAME} characters`, start);
    return this.source.slice(start, this.pos);
  }

  integer(): number {
    const start = this.pos;
    while (this.source[this.pos] >= '0' && this.source[this.pos] <= '9') this.pos++;
    if (this.pos === start) this.fail('a number');
    return Number(this.source.slice(start, this.pos));
  }

  /** Reads one character of a "text" or a [class], as a code point. */
  character(closing: string): number {
    if (this.atEnd) this.fail(`a character or ${closing}`);
    if (this.next === '\\') return this.#escaped();
    const code = this.source.codePointAt(this.pos)!;
    if (isSurrogate(code)) this.fail('a whole character: half of a surrogate pair has no UTF-8 form');
    this.pos += code > 0xffff ? 2 : 1;
    return code;
  }

  #escaped(): number {
    const kind = this.source[this.pos + 1] ?? '';
    const digits = HEX_ESCAPES[kind];
    if (digits !== undefined) return this.#hexadecimal(kind, digits);
    const plain = ESCAPES[kind];
    if (plain === undefined) this.fail('one of the escapes \\n \\r \\t \\\\ \\" \\[ \\] \\- \\x \\u \\U');
    this.pos += 2;
    return plain.charCodeAt(0);
  }

  #hexadecimal(kind: string, digits: number): number {
    const text = this.source.slice(this.pos + 2, this.pos + 2 + digits);
    if (text.length < digits || !/^[0-9a-fA-F]+$/.test(text)) this.fail(`${digits} hexadecimal digits after \\${kind}`);
    const code = parseInt(text, 16);
    if (code > MAX_CODE_POINT || isSurrogate(code)) this.fail('a Unicode code point that is not a surrogate');
    this.pos += 2 + digits;
    return code;
  }
}
