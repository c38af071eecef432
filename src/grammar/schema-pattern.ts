/** Regular expressions of a JSON schema (`pattern`) as GBNF. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { gbnfChoice, gbnfClass, gbnfRepeat, gbnfText } from './gbnf-text.ts';
import { normalizeRanges } from './parse.ts';

/** Groups inside groups: each is a call inside a call, here and where the grammar is read. */
const MAX_DEPTH = 100;
/** Patterns come from clients, and what is checked of one takes time with its length. */
const MAX_LENGTH = 4000;

type Pairs = [low: number, high: number][];

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
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };
const SHORT_ESCAPES: Readonly<Record<number, string>> = { 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 34: '\\"', 92: '\\\\' };

/** One character of a set as it stands inside a JSON string: itself, or escaped where JSON wants it so. */
function jsonCharacter(ranges: readonly number[]): string | undefined {
  const raw: Pairs = [];
  const escaped: string[] = [];
  const has = (code: number): boolean => ranges.some((low, i) => i % 2 === 0 && code >= low && code <= ranges[i + 1]);
  for (let i = 0; i < ranges.length; i += 2) raw.push([ranges[i], ranges[i + 1]]);
  for (let code = 0; code < 0x20; code++) if (has(code)) escaped.push(SHORT_ESCAPES[code] ?? `\\u${code.toString(16).padStart(4, '0')}`);
  for (const code of [34, 92]) if (has(code)) escaped.push(SHORT_ESCAPES[code]);
  const plain = intersect(
    normalizeRanges(raw, false),
    normalizeRanges(
      [
        [0, 0x1f],
        [34, 34],
        [92, 92],
      ],
      true,
    ),
  );
  return gbnfChoice([plain.length > 0 ? gbnfClass(plain) : undefined, ...escaped.map(gbnfText)]);
}

function intersect(a: readonly number[], b: readonly number[]): number[] {
  const out: number[] = [];
  for (let i = 0; i < a.length; i += 2) {
    for (let j = 0; j < b.length; j += 2) {
      const low = Math.max(a[i], b[j]);
      const high = Math.min(a[i + 1], b[j + 1]);
      if (low <= high) out.push(low, high);
    }
  }
  return out;
}

/**
 * The content of a JSON string that matches a regular expression, as GBNF: alternatives, groups, classes, ., \d \w \s and
 * their complements, quantifiers, ^ and $ at the ends of an alternative of the whole pattern (elsewhere text may precede
 * and follow, as JSON Schema has it). No look-around, back-references, \b or \p.
 * @param anyCharacter the rule for one character of a JSON string
 * @throws QuantletError ERR_GRAMMAR
 */
export function* patternToGbnf(pattern: string, anyCharacter: string, pointer: string): Work<string> {
  if (pattern.length > MAX_LENGTH)
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${pointer}: a pattern of ${pattern.length} characters was found, expected at most ${MAX_LENGTH}`,
    );
  const chars = Array.from(pattern);
  let pos = 0;
  let depth = 0;

  function fail(what: string): never {
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${pointer}: pattern ${shown(pattern)} has ${what} at character ${pos + 1}: expected literals, classes, groups, |, quantifiers, and ^ or $ at the ends`,
    );
  }

  // The engine would look up all the characters of each; they are refused below anyway.
  const before = /^(?:[^\\]|\\[^pP])*/.exec(pattern)![0];
  const escape = pattern.slice(before.length, before.length + 2);
  if (escape.length === 2) {
    pos = Array.from(before).length;
    fail(escape);
  }
  try {
    new RegExp(pattern, 'u');
  } catch (cause) {
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${pointer}: pattern ${shown(pattern)} is not a regular expression: ${(cause as Error).message.slice(-SHOWN)}`,
      { cause },
    );
  }

  function hexCode(digits: number): number {
    const text = chars.slice(pos, pos + digits).join('');
    pos += digits;
    return parseInt(text, 16);
  }

  /** After a backslash: a set, or one character. */
  function readEscape(): Pairs {
    const c = chars[pos++];
    const set = SETS[c.toLowerCase()];
    if (set) return c === c.toLowerCase() ? set : complement(set);
    if (c in CONTROLS && !/[0-9]/.test(chars[pos] ?? '')) return single(CONTROLS[c]);
    if (c === 'x') return single(hexCode(2));
    if (c === 'u') {
      if (chars[pos] !== '{') {
        const high = hexCode(4);
        if (high >= 0xd800 && high <= 0xdbff && chars[pos] === '\\' && chars[pos + 1] === 'u') {
          pos += 2;
          return single(0x10000 + (high - 0xd800) * 0x400 + hexCode(4) - 0xdc00);
        }
        return single(high);
      }
      const end = chars.indexOf('}', pos);
      const code = parseInt(chars.slice(pos + 1, end).join(''), 16);
      pos = end + 1;
      return single(code);
    }
    if (/[A-Za-z0-9]/.test(c)) {
      pos -= 2;
      fail(`\\${c}`);
    }
    return single(c.codePointAt(0)!);
  }

  function readClass(): Pairs {
    const negated = chars[pos] === '^';
    if (negated) pos++;
    const pairs: Pairs = [];
    while (chars[pos] !== ']') {
      const low = readClassAtom();
      if (chars[pos] === '-' && chars[pos + 1] !== ']' && low.length === 1 && low[0][0] === low[0][1]) {
        pos++;
        const high = readClassAtom();
        pairs.push([low[0][0], high[0][0]]);
      } else {
        pairs.push(...low);
      }
    }
    pos++;
    return negated ? complement(pairs) : pairs;
  }

  function readClassAtom(): Pairs {
    const c = chars[pos++];
    if (c !== '\\') return single(c.codePointAt(0)!);
    if (chars[pos] === 'b') {
      pos++;
      return single(8);
    }
    return readEscape();
  }

  function ofSet(pairs: Pairs): string {
    const item = jsonCharacter(normalizeRanges(pairs, false));
    if (item === undefined) fail('a class without characters');
    return item;
  }

  function* readAtom(): Work<string> {
    const c = chars[pos++];
    if (c === '(') {
      if (chars[pos] === '?') {
        if (chars[pos + 1] === ':') pos += 2;
        else if (chars[pos + 1] === '<' && chars[pos + 2] !== '=' && chars[pos + 2] !== '!')
          pos = chars.indexOf('>', pos) + 1; // a name: RegExp has checked it
        else fail('a (?...) group');
      }
      if (++depth > MAX_DEPTH) fail(`more than ${MAX_DEPTH} groups inside each other`);
      const body = yield* readAlternatives(false);
      depth--;
      pos++;
      return `(${body})`;
    }
    if (c === '.') return ofSet(complement(LINE_ENDS));
    if (c === '[') return ofSet(readClass());
    if (c === '^' || c === '$') {
      pos--;
      fail(`${c} inside`);
    }
    if (c === '\\') return ofSet(readEscape());
    return ofSet(single(c.codePointAt(0)!));
  }

  function* readQuantified(): Work<string> {
    yield;
    const atom = yield* readAtom();
    let min = 1;
    let max = 1;
    const c = chars[pos];
    if (c === '*') [min, max] = [0, Infinity];
    else if (c === '+') max = Infinity;
    else if (c === '?') min = 0;
    else if (c === '{') {
      const end = chars.indexOf('}', pos);
      const [low, high] = chars
        .slice(pos + 1, end)
        .join('')
        .split(',');
      min = Number(low);
      max = high === undefined ? min : high === '' ? Infinity : Number(high);
      pos = end;
    } else return atom;
    pos++;
    if (chars[pos] === '?') pos++; // lazy: which text matches does not change
    return gbnfRepeat(atom, min, max);
  }

  function* readAlternatives(outermost: boolean): Work<string> {
    const options: string[] = [];
    for (;;) {
      const items: string[] = [];
      if (outermost && chars[pos] === '^') pos++;
      else if (outermost) items.push(`${anyCharacter}*`);
      let open = outermost;
      while (pos < chars.length && chars[pos] !== '|' && chars[pos] !== ')') {
        if (outermost && chars[pos] === '$' && (pos + 1 === chars.length || chars[pos + 1] === '|')) {
          pos++;
          open = false;
        } else items.push(yield* readQuantified());
      }
      if (open) items.push(`${anyCharacter}*`);
      options.push(items.join(' ') || '""');
      if (chars[pos] !== '|') break;
      pos++;
    }
    return options.length === 1 ? options[0] : outermost ? `(${options.join(' | ')})` : options.join(' | ');
  }

  return yield* readAlternatives(true);
}

/** Characters of a pattern that a message shows. */
const SHOWN = 200;
const shown = (pattern: string): string =>
  pattern.length > SHOWN ? `${JSON.stringify(pattern.slice(0, SHOWN))}... (${pattern.length} characters)` : JSON.stringify(pattern);

const single = (code: number): Pairs => [[code, code]];

function complement(pairs: Pairs): Pairs {
  const ranges = normalizeRanges(pairs, true);
  return Array.from({ length: ranges.length / 2 }, (_, i): [number, number] => [ranges[2 * i], ranges[2 * i + 1]]);
}
