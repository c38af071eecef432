/** Converts regular expressions of a JSON schema (`pattern`) to GBNF. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { gbnfChoice, gbnfClass, gbnfRepeat, gbnfText } from './gbnf-text.ts';
import { CONTROLS, NO_LINE_END, PatternReader, namedSet, single, type Pairs } from './pattern-reader.ts';
import { normalizeRanges } from './ranges.ts';

/**
 * Deepest nesting of groups, because each level is a recursive call here and in the GBNF parser.
 */
const MAX_DEPTH = 100;
/**
 * Longest pattern in characters. Patterns come from clients, and the checks take longer for longer
 * patterns.
 */
const MAX_LENGTH = 4000;

const SHORT_ESCAPES: Readonly<Record<number, string>> = { 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 34: '\\"', 92: '\\\\' };

/** GBNF for one character of a set in a JSON string, escaped if JSON requires that. */
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
 * GBNF for the content of a JSON string that matches a regular expression.
 *
 * Supported are alternatives, groups, classes, quantifiers, `.`, and `\d \w \s` with their
 * complements. `^` and `$` are supported at the ends of an alternative of the whole pattern.
 * Without them text may precede and follow, as in JSON Schema. Look-around, back-references,
 * `\b` and `\p` are not supported.
 * @param anyCharacter the rule for one character of a JSON string
 * @throws QuantletError ERR_GRAMMAR
 */
export function* patternToGbnf(pattern: string, anyCharacter: string, pointer: string): Work<string> {
  if (pattern.length > MAX_LENGTH)
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${pointer}: the pattern has ${pattern.length} characters; expected at most ${MAX_LENGTH}`,
    );
  const translator = new PatternTranslator(pattern, anyCharacter, pointer);
  // First, because RegExp would expand each property (\p) to all its characters.
  translator.refuseProperties();
  try {
    new RegExp(pattern, 'u');
  } catch (cause) {
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${pointer}: pattern ${shown(pattern)} is not a regular expression: ${(cause as Error).message.slice(-SHOWN)}`,
      { cause },
    );
  }
  return yield* translator.pattern();
}

/**
 * Recursive-descent translator of a pattern that RegExp has accepted, with a method for each
 * construct.
 */
class PatternTranslator extends PatternReader {
  readonly #pattern: string;
  readonly #anyCharacter: string;
  readonly #pointer: string;
  /** Depth of groups at the position. */
  #depth = 0;

  constructor(pattern: string, anyCharacter: string, pointer: string) {
    super(pattern);
    this.#pattern = pattern;
    this.#anyCharacter = anyCharacter;
    this.#pointer = pointer;
  }

  /** Reads up to the next `closing` and skips it. */
  #upTo(closing: string): string {
    const start = this.pos;
    const end = this.chars.indexOf(closing, start);
    this.pos = end + 1;
    return this.chars.slice(start, end).join('');
  }

  protected fail(what: string): never {
    throw new QuantletError(
      'ERR_GRAMMAR',
      `schema ${this.#pointer}: pattern ${shown(this.#pattern)} has ${what} at character ${this.pos + 1}; expected literals, classes, groups, |, quantifiers, and ^ or $ at the ends`,
    );
  }

  /** @throws QuantletError ERR_GRAMMAR for \p and \P */
  refuseProperties(): void {
    const before = /^(?:[^\\]|\\[^pP])*/.exec(this.#pattern)![0];
    const escape = this.#pattern.slice(before.length, before.length + 2);
    if (escape.length < 2) return;
    this.pos = Array.from(before).length;
    this.fail(escape);
  }

  /** Translates the whole pattern. Text may precede and follow an alternative without ^ or $. */
  *pattern(): Work<string> {
    const options: string[] = [];
    do {
      const items = this.take('^') ? [] : [`${this.#anyCharacter}*`];
      let open = true;
      while (this.#inAlternative()) {
        const last = this.chars[this.pos + 1] === undefined || this.chars[this.pos + 1] === '|';
        if (last && this.take('$')) open = false;
        else items.push(yield* this.#quantified());
      }
      if (open) items.push(`${this.#anyCharacter}*`);
      options.push(items.join(' ') || '""');
    } while (this.take('|'));
    return options.length === 1 ? options[0] : `(${options.join(' | ')})`;
  }

  #inAlternative(): boolean {
    const c = this.next;
    return c !== undefined && c !== '|' && c !== ')';
  }

  /** The alternatives of a group. */
  *#alternatives(): Work<string> {
    const options: string[] = [];
    do {
      const items: string[] = [];
      while (this.#inAlternative()) items.push(yield* this.#quantified());
      options.push(items.join(' ') || '""');
    } while (this.take('|'));
    return options.join(' | ');
  }

  *#quantified(): Work<string> {
    yield;
    const atom = yield* this.#atom();
    const counts = this.#quantifier();
    if (!counts) return atom;
    this.take('?'); // A lazy quantifier matches the same texts.
    return gbnfRepeat(atom, ...counts);
  }

  #quantifier(): [min: number, max: number] | undefined {
    if (this.take('*')) return [0, Infinity];
    if (this.take('+')) return [1, Infinity];
    if (this.take('?')) return [0, 1];
    if (!this.take('{')) return undefined;
    const [low, high] = this.#upTo('}').split(',');
    return [Number(low), high === undefined ? Number(low) : high === '' ? Infinity : Number(high)];
  }

  *#atom(): Work<string> {
    const c = this.chars[this.pos++];
    if (c === '(') return yield* this.#group();
    if (c === '.') return this.#set(NO_LINE_END);
    if (c === '[') return this.#set(this.characterClass());
    if (c === '\\') return this.#set(this.escape());
    if (c === '^' || c === '$') {
      this.pos--;
      this.fail(`${c} inside`);
    }
    return this.#set(single(c.codePointAt(0)!));
  }

  *#group(): Work<string> {
    if (this.next === '?') {
      const kind = this.chars[this.pos + 1];
      const further = this.chars[this.pos + 2];
      if (kind === ':') this.pos += 2;
      else if (kind === '<' && further !== '=' && further !== '!')
        this.#upTo('>'); // A name, which RegExp has checked.
      else this.fail('a (?...) group');
    }
    if (++this.#depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} nested groups`);
    const body = yield* this.#alternatives();
    this.#depth--;
    this.pos++;
    return `(${body})`;
  }

  #set(pairs: Pairs): string {
    return jsonCharacter(normalizeRanges(pairs, false)) ?? this.fail('a class without characters');
  }

  protected escape(): Pairs {
    const c = this.chars[this.pos++];
    const set = namedSet(c);
    if (set) return set;
    if (c in CONTROLS && !/[0-9]/.test(this.next ?? '')) return single(CONTROLS[c]);
    if (c === 'x') return single(this.hexadecimal(2));
    if (c === 'u') return single(this.unicode());
    if (/[A-Za-z0-9]/.test(c)) {
      this.pos -= 2;
      this.fail(`\\${c}`);
    }
    return single(c.codePointAt(0)!);
  }
}

/** Number of characters of a pattern in an error. */
const SHOWN = 200;
const shown = (pattern: string): string =>
  pattern.length > SHOWN ? `${JSON.stringify(pattern.slice(0, SHOWN))}... (${pattern.length} characters)` : JSON.stringify(pattern);
