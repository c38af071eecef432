/** Reading of regular expressions of ECMAScript that RegExp has accepted: sets and escapes. */
import { MAX_CODE_POINT, normalizeRanges } from '../ranges.ts';

export type Pairs = [low: number, high: number][];

const DIGIT: Pairs = [[48, 57]];
const WORD: Pairs = [
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
];
const SPACE: Pairs = [
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: Pairs = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];
const SETS: Readonly<Record<string, Pairs>> = { d: DIGIT, w: WORD, s: SPACE };

/** Characters of `\t` and its like. */
export const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

/** The set of one character. */
export const single = (code: number): Pairs => [[code, code]];

const isSingle = (pairs: Pairs): boolean => pairs.length === 1 && pairs[0][0] === pairs[0][1];

/** All other characters. */
export function complement(pairs: Pairs): Pairs {
  const ranges = normalizeRanges(pairs, true);
  return Array.from({ length: ranges.length / 2 }, (_, i): [number, number] => [ranges[2 * i], ranges[2 * i + 1]]);
}

/** The set of a dot. */
export const NO_LINE_END = complement(LINE_ENDS);

/** The set of \d, \w, \s or a complement of these, by its letter; undefined for other letters. */
export function namedSet(letter: string): Pairs | undefined {
  const name = letter.toLowerCase();
  if (!Object.hasOwn(SETS, name)) return undefined;
  return letter === name ? SETS[name] : complement(SETS[name]);
}

/** A position in a pattern, with the parts whose meaning all readers share. */
export abstract class PatternReader {
  protected readonly chars: readonly string[];
  protected pos = 0;

  constructor(pattern: string) {
    this.chars = Array.from(pattern);
  }

  protected get next(): string | undefined {
    return this.chars[this.pos];
  }

  /** Skips a text, if it comes next. */
  protected take(text: string): boolean {
    for (let i = 0; i < text.length; i++) if (this.chars[this.pos + i] !== text[i]) return false;
    this.pos += text.length;
    return true;
  }

  /** @throws an error that says what the pattern has at the position */
  protected abstract fail(what: string): never;

  /** The set or character of an escape, read after the backslash. */
  protected abstract escape(): Pairs;

  /** A class, read after its `[`. */
  protected characterClass(): Pairs {
    const negated = this.take('^');
    const pairs: Pairs = [];
    while (this.next !== ']') {
      const low = this.#classAtom();
      if (isSingle(low) && this.next === '-' && this.chars[this.pos + 1] !== ']') {
        this.pos++;
        const high = this.#classAtom();
        if (isSingle(high)) pairs.push([low[0][0], high[0][0]]);
        else pairs.push(...low, ...single(45), ...high);
      } else pairs.push(...low);
    }
    this.pos++;
    return negated ? complement(pairs) : pairs;
  }

  #classAtom(): Pairs {
    const c = this.chars[this.pos++];
    if (c !== '\\') return single(c.codePointAt(0)!);
    return this.take('b') ? single(8) : this.escape();
  }

  /** The number of `digits` hexadecimal digits. */
  protected hexadecimal(digits: number): number {
    const text = this.chars.slice(this.pos, this.pos + digits).join('');
    if (!/^[0-9a-fA-F]+$/.test(text) || text.length < digits) this.fail('an escape without hexadecimal digits');
    this.pos += digits;
    return parseInt(text, 16);
  }

  /** The code point of \uXXXX, of two of these as a surrogate pair, or of \u{X...}. */
  protected unicode(): number {
    if (this.take('{')) {
      // Without the flag u, RegExp takes \u{ as a u and a brace.
      const digits = this.chars.slice(this.pos, Math.max(0, this.chars.indexOf('}', this.pos))).join('');
      const code = /^[0-9a-fA-F]+$/.test(digits) ? parseInt(digits, 16) : Infinity;
      if (code > MAX_CODE_POINT) this.fail('\\u{ without a code point');
      this.pos += digits.length + 1;
      return code;
    }
    const high = this.hexadecimal(4);
    const isPair = high >= 0xd800 && high <= 0xdbff && this.next === '\\' && this.chars[this.pos + 1] === 'u';
    if (!isPair) return high;
    this.pos += 2;
    return 0x10000 + (high - 0xd800) * 0x400 + this.hexadecimal(4) - 0xdc00;
  }
}
