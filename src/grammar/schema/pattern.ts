/** Converts regular expressions of ECMAScript (`pattern`) to languages of whole texts. */
import { CONTROLS, NO_LINE_END, PatternReader, namedSet, single, type Pairs } from './pattern-reader.ts';
import { normalizeRanges } from '../ranges.ts';
import type { Languages, Regex } from './regex.ts';

/** Deepest nesting of groups, because each level is a recursive call. */
const MAX_DEPTH = 100;
/** Longest pattern in characters. Patterns come from clients. */
const MAX_LENGTH = 10_000;
/** Largest count of a quantifier. */
const MAX_COUNT = 100_000;

/** Largest count of a group with anchors or look-ahead, which is written out. */
const MAX_COPIES = 8;

/** A pattern that cannot be converted; the message says which part. */
export class PatternError extends Error {
  /** True if it is not a regular expression. */
  readonly malformed: boolean;

  constructor(message: string, malformed = false) {
    super(message);
    this.malformed = malformed;
  }
}

/** A part of an alternative. Groups with anchors or look-ahead inside stay trees. */
type Item =
  | { readonly type: 'regex'; readonly regex: Regex }
  | { readonly type: 'start' | 'end' }
  | { readonly type: 'ahead'; readonly options: readonly (readonly Item[])[]; readonly negated: boolean }
  | { readonly type: 'group'; readonly options: readonly (readonly Item[])[] };

/**
 * The language of texts in which a pattern is found.
 * @throws PatternError for look-behind, back-references, word boundaries, and for what is not a
 * regular expression
 */
export function patternLanguage(pattern: string, languages: Languages): Regex {
  if (pattern.length > MAX_LENGTH) throw new PatternError(`it has ${pattern.length} characters; expected at most ${MAX_LENGTH}`);
  refuseInvalid(pattern);
  const options = new PatternParser(pattern, languages).pattern();
  const { anything, character } = languages;
  const from = (start: boolean): Regex => languages.choice(options.map((items) => fold(items, anything, start, languages)));
  const first = from(true);
  const later = from(false);
  if (first === later) return languages.sequence(anything, first);
  // The pattern is found at the start, or after some characters.
  return languages.choice([first, languages.sequence(anything, languages.sequence(character, later))]);
}

function refuseInvalid(pattern: string): void {
  // A property (\p) is refused by the parser. RegExp would expand it to all its characters first.
  if (/\\[pP]\{/.test(pattern)) throw new PatternError('it has \\p, a property of characters');
  try {
    new RegExp(pattern, 'u');
  } catch {
    try {
      // Patterns of other languages escape characters that need no escape, such as \- and \@.
      new RegExp(pattern);
    } catch (cause) {
      throw new PatternError(`it is not a regular expression: ${(cause as Error).message.slice(-200)}`, true);
    }
  }
}

/**
 * The language of an alternative followed by `after`.
 * @param start true if the alternative begins where the text begins
 */
function fold(items: readonly Item[], after: Regex, start: boolean, languages: Languages): Regex {
  const starts: boolean[] = [];
  let still = start;
  for (const item of items) {
    starts.push(still);
    if (item.type === 'regex' || item.type === 'group') still = false;
  }
  let rest = after;
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    const inside = (options: readonly (readonly Item[])[], then: Regex): Regex =>
      languages.choice(options.map((option) => fold(option, then, starts[i], languages)));
    switch (item.type) {
      case 'regex':
        rest = languages.sequence(item.regex, rest);
        break;
      case 'start':
        if (!starts[i]) rest = languages.none;
        break;
      case 'end':
        rest = rest.nullable ? languages.empty : languages.none;
        break;
      case 'group':
        rest = inside(item.options, rest);
        break;
      case 'ahead': {
        const ahead = inside(item.options, languages.anything);
        rest = languages.all([item.negated ? languages.not(ahead) : ahead, rest]);
      }
    }
  }
  return rest;
}

/** Recursive-descent parser of a pattern that RegExp has accepted. */
class PatternParser extends PatternReader {
  readonly #languages: Languages;
  /** Depth of groups at the position. */
  #depth = 0;

  constructor(pattern: string, languages: Languages) {
    super(pattern);
    this.#languages = languages;
  }

  pattern(): Item[][] {
    const options = this.#alternatives();
    if (this.pos < this.chars.length) this.fail('an unmatched )');
    return options;
  }

  protected fail(what: string): never {
    throw new PatternError(`it has ${what} at character ${this.pos + 1}`);
  }

  #alternatives(): Item[][] {
    const options: Item[][] = [];
    do {
      const items: Item[] = [];
      while (this.next !== undefined && this.next !== '|' && this.next !== ')') items.push(this.#quantified());
      options.push(items);
    } while (this.take('|'));
    return options;
  }

  #quantified(): Item {
    const item = this.#atom();
    const counts = this.#quantifier();
    if (!counts) return item;
    this.take('?'); // A lazy quantifier matches the same texts.
    if (item.type === 'group' && counts[1] <= MAX_COPIES) return copies(item, ...counts);
    if (item.type !== 'regex') this.fail('a repeated group with ^, $ or look-ahead');
    if (counts[0] > MAX_COUNT || (counts[1] !== Infinity && counts[1] > MAX_COUNT)) this.fail(`a count above ${MAX_COUNT}`);
    return { type: 'regex', regex: this.#languages.repeat(item.regex, ...counts) };
  }

  #quantifier(): [min: number, max: number] | undefined {
    if (this.take('*')) return [0, Infinity];
    if (this.take('+')) return [1, Infinity];
    if (this.take('?')) return [0, 1];
    if (this.next !== '{') return undefined;
    const counts = /^\{(\d+)(,(\d*))?\}/.exec(this.chars.slice(this.pos, this.pos + 24).join(''));
    if (!counts) return undefined;
    this.pos += counts[0].length;
    const min = Number(counts[1]);
    return [min, counts[2] === undefined ? min : counts[3] === '' ? Infinity : Number(counts[3])];
  }

  #atom(): Item {
    if (this.take('^')) return { type: 'start' };
    if (this.take('$')) return { type: 'end' };
    if (this.take('(')) return this.#group();
    const c = this.chars[this.pos++];
    if (c === '.') return this.#set(NO_LINE_END);
    if (c === '[') return this.#set(this.characterClass());
    if (c === '\\') return this.#set(this.escape());
    return this.#set(single(c.codePointAt(0)!));
  }

  #group(): Item {
    const ahead = this.take('?=') || this.take('?!');
    const negated = ahead && this.chars[this.pos - 1] === '!';
    if (this.take('?<=') || this.take('?<!')) this.fail('look-behind');
    if (this.take('?<'))
      while (!this.take('>')) this.pos++; // A name, which RegExp has checked.
    else if (!ahead) this.take('?:');
    if (++this.#depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} nested groups`);
    const options = this.#alternatives();
    this.#depth--;
    this.pos++;
    if (ahead) return { type: 'ahead', options, negated };
    const languages = this.#languages;
    if (options.flat().some((item) => item.type !== 'regex')) return { type: 'group', options };
    return { type: 'regex', regex: languages.choice(options.map((items) => fold(items, languages.empty, false, languages))) };
  }

  #set(pairs: Pairs): Item {
    return { type: 'regex', regex: this.#languages.chars(normalizeRanges(pairs, false)) };
  }

  protected escape(): Pairs {
    const c = this.chars[this.pos++];
    const set = namedSet(c);
    if (set) return set;
    if (Object.hasOwn(CONTROLS, c) && !(c === '0' && /[0-9]/.test(this.next ?? ''))) return single(CONTROLS[c]);
    if (c === 'c' && /[a-zA-Z]/.test(this.next ?? '')) return single(this.chars[this.pos++].charCodeAt(0) % 32);
    if (c === 'x') return single(this.hexadecimal(2));
    if (c === 'u') return single(this.unicode());
    if (/[0-9bBck]/.test(c)) {
      this.pos -= 2;
      this.fail(`\\${c}`);
    }
    // \a, \_ and \- are the characters themselves; only patterns without the flag u have them.
    return single(c.codePointAt(0)!);
  }
}

/** A group as often as a quantifier says. */
function copies(group: Extract<Item, { readonly type: 'group' }>, min: number, max: number): Item {
  const optional: Item = { type: 'group', options: [...group.options, []] };
  return { type: 'group', options: [Array.from({ length: max }, (_, i) => (i < min ? group : optional))] };
}
