/** Converts regular expressions of ECMAScript (`pattern`) to languages of whole texts. */
import { charactersWith } from './character-properties.ts';
import { complement, CONTROLS, NO_LINE_END, PatternReader, namedSet, single, type Pairs } from './pattern-reader.ts';
import { normalizeRanges } from '../ranges.ts';
import type { Languages, Regex } from './regex.ts';

/** Deepest nesting of groups, because each level is a recursive call. */
const MAX_DEPTH = 100;
/** Longest pattern in characters. Patterns come from clients. */
const MAX_LENGTH = 10_000;
/** Largest count of a quantifier. */
const MAX_COUNT = 100_000;

/** Largest count of a group with look-ahead, which is written out. */
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

type Options = readonly (readonly Item[])[];

/** A part of an alternative. Groups with anchors or look-ahead inside stay trees. */
type Item =
  | { readonly type: 'regex'; readonly regex: Regex }
  | { readonly type: 'start' | 'end' }
  | { readonly type: 'ahead'; readonly options: Options; readonly negated: boolean }
  | { readonly type: 'group'; readonly options: Options }
  | { readonly type: 'repeat'; readonly options: Options; readonly min: number; readonly max: number };

/** The texts from a place on: at the start of the whole text, and at a later place. */
interface Places {
  readonly first: Regex;
  readonly later: Regex;
}

/**
 * The language of texts in which a pattern is found.
 * @throws PatternError for look-behind, back-references, word boundaries, and for what is not a
 * regular expression
 */
export function patternLanguage(pattern: string, languages: Languages): Regex {
  let language = languages.patterns.get(pattern);
  if (!language) languages.patterns.set(pattern, (language = compilePattern(pattern, languages)));
  return language;
}

function compilePattern(pattern: string, languages: Languages): Regex {
  if (pattern.length > MAX_LENGTH) throw new PatternError(`it has ${pattern.length} characters; expected at most ${MAX_LENGTH}`);
  refuseInvalid(pattern);
  const options = new PatternParser(pattern, languages).pattern();
  const { anything, character } = languages;
  const { first, later } = new Folding(languages).options(options, same(anything));
  if (first === later) return languages.sequence(anything, first);
  // The pattern is found at the start, or after some characters.
  return languages.choice([first, languages.sequence(anything, languages.sequence(character, later))]);
}

/** Limit of \p in one pattern: RegExp expands each to its characters. */
const MAX_PROPERTIES = 50;

function refuseInvalid(pattern: string): void {
  const properties = pattern.match(/\\[pP]\{/g)?.length ?? 0;
  if (properties > MAX_PROPERTIES) throw new PatternError(`it has \\p ${properties} times; expected at most ${MAX_PROPERTIES}`);
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

const same = (regex: Regex): Places => ({ first: regex, later: regex });

/** Makes languages of the parts of a pattern, from the last part to the first. */
class Folding {
  readonly #languages: Languages;
  /** False: $ is found nowhere, because something must follow. */
  #ends = true;

  constructor(languages: Languages) {
    this.#languages = languages;
  }

  /** The language of alternatives followed by `after`. */
  options(options: Options, after: Places): Places {
    const all = options.map((items) => items.reduceRight((rest, item) => this.#item(item, rest), after));
    return {
      first: this.#languages.choice(all.map(({ first }) => first)),
      later: this.#languages.choice(all.map(({ later }) => later)),
    };
  }

  #item(item: Item, rest: Places): Places {
    const languages = this.#languages;
    switch (item.type) {
      case 'regex':
        return this.#regex(item.regex, rest);
      case 'start':
        return { first: rest.first, later: languages.none };
      case 'end': {
        const end = (regex: Regex): Regex => (this.#ends && regex.nullable ? languages.empty : languages.none);
        return { first: end(rest.first), later: end(rest.later) };
      }
      case 'group':
        return this.options(item.options, rest);
      case 'repeat':
        return this.#repeat(item, rest);
      case 'ahead': {
        const ahead = this.options(item.options, same(languages.anything));
        const held = (regex: Regex, then: Regex): Regex => languages.all([item.negated ? languages.not(regex) : regex, then]);
        return { first: held(ahead.first, rest.first), later: held(ahead.later, rest.later) };
      }
    }
  }

  #regex(regex: Regex, { first, later }: Places): Places {
    const languages = this.#languages;
    const after = languages.sequence(regex, later);
    if (first === later || !regex.nullable) return same(after);
    // Characters of the text move on from its start, and an empty text does not.
    const some = languages.all([regex, languages.repeat(languages.character, 1, Infinity)]);
    return { first: languages.choice([first, languages.sequence(some, later)]), later: after };
  }

  /** A group with ^ or $ inside, again and again: ^ can hold in the first one alone, and $ in the last. */
  #repeat({ options, min, max }: Extract<Item, { readonly type: 'repeat' }>, rest: Places): Places {
    const languages = this.#languages;
    const { empty, none } = languages;
    this.#ends = false;
    const inner = this.options(options, same(empty));
    this.#ends = true;
    const last = this.options(options, same(empty));
    /** As many of them as may come. */
    const times = (least: number, most: number): Places => {
      if (most <= 0) return same(empty);
      const more = (from: number): Regex => languages.repeat(inner.later, Math.max(0, from), most - 1);
      // At the start, any number of empty ones may come first.
      const first = languages.sequence(inner.first, more(inner.first.nullable ? 0 : least - 1));
      const some: Places = { first, later: languages.sequence(inner.later, more(least - 1)) };
      return least > 0 ? some : { first: languages.choice([empty, some.first]), later: languages.choice([empty, some.later]) };
    };
    const all = times(min, max);
    const before = times(Math.max(0, min - 1), max - 1);
    const then = (texts: Regex, atStart: boolean): Regex => {
      const next = atStart ? this.#regex(texts, rest).first : languages.sequence(texts, rest.later);
      const place = atStart ? 'first' : 'later';
      if (!rest[place].nullable) return next;
      return languages.choice([next, atStart ? this.#regex(before.first, last).first : languages.sequence(before.later, last.later)]);
    };
    return max === 0 ? rest : { first: then(all.first, true), later: rest.later === none ? none : then(all.later, false) };
  }
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
    if (counts[0] > MAX_COUNT || (counts[1] !== Infinity && counts[1] > MAX_COUNT)) this.fail(`a count above ${MAX_COUNT}`);
    if (item.type === 'group' && !hasAhead(item.options)) return { type: 'repeat', options: item.options, min: counts[0], max: counts[1] };
    if (item.type === 'group' && counts[1] <= MAX_COPIES) return copies(item, ...counts);
    // Repeated assertions hold or not, however often they are asked.
    if (item.type === 'ahead') return counts[0] > 0 ? item : { type: 'regex', regex: this.#languages.empty };
    if (item.type !== 'regex') this.fail('a repeated group with look-ahead');
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
    return { type: 'regex', regex: new Folding(languages).options(options, same(languages.empty)).later };
  }

  #set(pairs: Pairs): Item {
    return { type: 'regex', regex: this.#languages.chars(normalizeRanges(pairs, false)) };
  }

  /** The characters of \p{...} or \P{...}, read after the letter. */
  #property(letter: string): Pairs {
    const end = this.chars.indexOf('}', this.pos);
    const name = end < 0 ? '' : this.chars.slice(this.pos + 1, end).join('');
    const pairs = charactersWith(name);
    if (!pairs) this.fail('\\p of an unknown property');
    this.pos = end + 1;
    return letter === 'p' ? pairs : complement(pairs);
  }

  protected escape(): Pairs {
    const c = this.chars[this.pos++];
    const set = namedSet(c);
    if (set) return set;
    if (Object.hasOwn(CONTROLS, c) && !(c === '0' && /[0-9]/.test(this.next ?? ''))) return single(CONTROLS[c]);
    if (c === 'c' && /[a-zA-Z]/.test(this.next ?? '')) return single(this.chars[this.pos++].charCodeAt(0) % 32);
    if ((c === 'p' || c === 'P') && this.next === '{') return this.#property(c);
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

const hasAhead = (options: Options): boolean =>
  options.flat().some((item) => item.type === 'ahead' || ('options' in item && hasAhead(item.options)));

/** A group as often as a quantifier says. */
function copies(group: Extract<Item, { readonly type: 'group' }>, min: number, max: number): Item {
  const optional: Item = { type: 'group', options: [...group.options, []] };
  return { type: 'group', options: [Array.from({ length: max }, (_, i) => (i < min ? group : optional))] };
}
