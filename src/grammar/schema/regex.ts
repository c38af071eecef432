/**
 * Regular languages over code points. A language is the state of its own automaton: Brzozowski's
 * derivative by a character is the language of what may follow. Intersection and complement need
 * no construction of their own, and states are made only as texts reach them.
 */
import { MAX_CODE_POINT, normalizeRanges } from '../ranges.ts';
import type { Work } from '../../slices.ts';

/** Code points from `low` to `high` lead to the language `to`. */
export interface Edge {
  readonly low: number;
  readonly high: number;
  readonly to: Regex;
}

type Form =
  | { readonly type: 'none' }
  | { readonly type: 'empty' }
  /** One character; ranges are flat [low, high, low, high ...]. */
  | { readonly type: 'chars'; readonly ranges: readonly number[] }
  | { readonly type: 'sequence'; readonly first: Regex; readonly rest: Regex }
  | { readonly type: 'choice' | 'all'; readonly parts: readonly Regex[] }
  | { readonly type: 'not'; readonly item: Regex }
  | { readonly type: 'repeat'; readonly item: Regex; readonly min: number; readonly max: number }
  /** Listed words, and once computed, the rests of these by their first character. */
  | { readonly type: 'words'; readonly words: ReadonlySet<string>; next: ReadonlyMap<number, Regex> | undefined }
  /** Digits of a multiple of a number; see Multiple. */
  | { readonly type: 'multiple'; readonly of: Multiple };

/**
 * Decimals that are multiples of `step` / 10^places. `rest` is the remainder of the digits so far,
 * and `after` the number of digits after the point; -1 before it.
 */
interface Multiple {
  readonly step: bigint;
  readonly places: number;
  readonly rest: bigint;
  readonly after: number;
}

export interface Regex {
  readonly id: number;
  readonly form: Form;
  /** True if the empty text belongs to the language. */
  readonly nullable: boolean;
  /** True if no intersection or complement is inside, so that every state can end. */
  readonly plain: boolean;
  /** The transitions, once computed. */
  edges: readonly Edge[] | undefined;
  /** True if some text belongs to the language; undefined if not known yet. */
  live: boolean | undefined;
}

/** Limit of languages made for one schema. A language takes about 200 bytes. */
const MAX_LANGUAGES = 300_000;
/** Limit of languages visited to find one text. */
const MAX_VISITED = 3000;
/** Limit of derivatives taken while a schema is compiled: one or two seconds. */
const MAX_STEPS = 3_000_000;
/** Limit of derivatives taken to compare listed words with other languages. */
const MAX_WORD_STEPS = 300_000;
/** Longest text of a listed language. */
const MAX_LISTED_LENGTH = 500;
/** Number of languages visited between two pauses. */
const STRIDE = 64;

/** Thrown when patterns combine to too many states. The caller names the keyword. */
export class TooManyStates extends Error {}

/** Makes the languages of one schema. Equal expressions are one object. */
export class Languages {
  readonly #known = new Map<string, Regex>();
  readonly #lists = new Map<string, Regex>();
  #count = 0;
  /** Number of derivatives taken. */
  #steps = 0;
  /** Languages of patterns, by the pattern. */
  readonly patterns = new Map<string, Regex>();
  /** True while a schema is compiled: the time that languages take is limited. */
  limited = true;
  readonly none = this.#intern('none', { type: 'none' }, false, true);
  readonly empty = this.#intern('empty', { type: 'empty' }, true, true);
  /** Any one character. */
  readonly character = this.chars([0, 0xd7ff, 0xe000, MAX_CODE_POINT]);
  /** Any text. */
  readonly anything = this.repeat(this.character, 0, Infinity);

  #add(form: Form, nullable: boolean, plain: boolean): Regex {
    if (this.#count >= MAX_LANGUAGES) throw new TooManyStates();
    return { id: this.#count++, form, nullable, plain, edges: undefined, live: undefined };
  }

  #intern(key: string, form: Form, nullable: boolean, plain: boolean): Regex {
    let regex = this.#known.get(key);
    if (!regex) this.#known.set(key, (regex = this.#add(form, nullable, plain)));
    return regex;
  }

  chars(ranges: readonly number[]): Regex {
    return ranges.length === 0 ? this.none : this.#intern(`[${ranges.join()}`, { type: 'chars', ranges }, false, true);
  }

  text(text: string): Regex {
    let after = this.empty;
    for (const c of Array.from(text).reverse()) after = this.sequence(this.chars([c.codePointAt(0)!, c.codePointAt(0)!]), after);
    return after;
  }

  sequence(first: Regex, rest: Regex): Regex {
    if (first === this.none || rest === this.none) return this.none;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    const { form } = first;
    if (form.type === 'sequence') return this.sequence(form.first, this.sequence(form.rest, rest));
    if (first === this.anything && rest === this.anything) return rest;
    return this.#intern(
      `.${first.id},${rest.id}`,
      { type: 'sequence', first, rest },
      first.nullable && rest.nullable,
      first.plain && rest.plain,
    );
  }

  /** The language of texts that belong to any of these. */
  choice(options: readonly Regex[]): Regex {
    const parts = new Set<Regex>();
    const ranges: [number, number][] = [];
    for (const option of options.flatMap((one) => (one.form.type === 'choice' ? one.form.parts : [one]))) {
      if (option === this.anything) return option;
      if (option.form.type === 'chars')
        for (let i = 0; i < option.form.ranges.length; i += 2) ranges.push([option.form.ranges[i], option.form.ranges[i + 1]]);
      else if (option !== this.none) parts.add(option);
    }
    if (ranges.length > 0) parts.add(this.chars(normalizeRanges(ranges, false)));
    return this.#combined('choice', parts, this.none);
  }

  /** The language of texts that belong to all of these. */
  all(given: readonly Regex[]): Regex {
    const parts = new Set<Regex>();
    let counts: { min: number; max: number } | undefined;
    for (const part of given.flatMap((one) => (one.form.type === 'all' ? one.form.parts : [one]))) {
      const { form } = part;
      if (part === this.none) return part;
      // Lengths are merged, so that two of them are not a product of states.
      if (form.type === 'repeat' && form.item === this.character)
        counts = { min: Math.max(form.min, counts?.min ?? 0), max: Math.min(form.max, counts?.max ?? Infinity) };
      else parts.add(part);
    }
    if (counts && counts.min > counts.max) return this.none;
    const length = counts && this.repeat(this.character, counts.min, counts.max);
    if (length && length !== this.anything) parts.add(length);
    for (const part of parts) if (part.form.type === 'not' && parts.has(part.form.item)) return this.none;
    if (parts.has(this.empty)) return [...parts].every((part) => part.nullable) ? this.empty : this.none;
    return this.#combined('all', parts, this.anything);
  }

  #combined(type: 'choice' | 'all', set: ReadonlySet<Regex>, without: Regex): Regex {
    const parts = [...set].sort((a, b) => a.id - b.id);
    if (parts.length < 2) return parts[0] ?? without;
    if (type === 'all') {
      const list = parts.find(({ form }) => form.type === 'words');
      if (list?.form.type === 'words') return this.#amongWords(list, list.form.words, parts);
    }
    const nullable = type === 'choice' ? parts.some((part) => part.nullable) : parts.every((part) => part.nullable);
    const plain = type === 'choice' && parts.every((part) => part.plain);
    return this.#intern(`${type}${parts.map((part) => part.id).join()}`, { type, parts }, nullable, plain);
  }

  /** The listed words that belong to all languages; not listed if that takes long. */
  #amongWords(list: Regex, words: ReadonlySet<string>, all: readonly Regex[]): Regex {
    const key = `all${all.map((part) => part.id).join()}`;
    let regex = this.#known.get(key);
    if (regex) return regex;
    const others = all.filter((part) => part !== list);
    const most = this.#steps + MAX_WORD_STEPS;
    const kept: string[] = [];
    for (const word of words) {
      if (others.every((other) => this.#matchesWithin(other, word, most))) kept.push(word);
      if (this.#steps > most)
        return this.#intern(
          key,
          { type: 'all', parts: all },
          all.every(({ nullable }) => nullable),
          false,
        );
    }
    this.#known.set(key, (regex = this.words(kept)));
    return regex;
  }

  not(item: Regex): Regex {
    if (item === this.none) return this.anything;
    if (item === this.anything) return this.none;
    if (item.form.type === 'not') return item.form.item;
    return this.#intern(`!${item.id}`, { type: 'not', item }, !item.nullable, false);
  }

  repeat(item: Regex, min: number, max: number): Regex {
    if (max === 0 || item === this.empty) return this.empty;
    if (item === this.none) return min === 0 ? this.empty : this.none;
    if (min === 1 && max === 1) return item;
    const { form } = item;
    if (form.type === 'repeat' && form.min === 0 && form.max === Infinity) return item;
    const least = item.nullable ? 0 : min;
    return this.#intern(`*${item.id},${least},${max}`, { type: 'repeat', item, min: least, max }, least === 0, item.plain);
  }

  /** The language of the listed words. Equal lists are one language. */
  words(words: Iterable<string>): Regex {
    const list = [...words];
    const key = JSON.stringify(list);
    let regex = this.#lists.get(key);
    if (!regex) this.#lists.set(key, (regex = this.#listed(list)));
    return regex;
  }

  #listed(list: readonly string[]): Regex {
    const words = new Set(list);
    const hasEmpty = words.has('');
    if (words.size === Number(hasEmpty)) return hasEmpty ? this.empty : this.none;
    return this.#add({ type: 'words', words, next: undefined }, hasEmpty, true);
  }

  /** The rests of listed words by their first character. */
  #nextOf(form: Extract<Form, { readonly type: 'words' }>): ReadonlyMap<number, Regex> {
    if (form.next) return form.next;
    const rests = new Map<number, string[]>();
    for (const word of form.words) {
      const code = word.codePointAt(0);
      if (code === undefined) continue;
      const rest = word.slice(code > 0xffff ? 2 : 1);
      const others = rests.get(code);
      if (others) others.push(rest);
      else rests.set(code, [rest]);
    }
    return (form.next = new Map([...rests].map(([code, words]) => [code, this.#listed(words)])));
  }

  /** Digits, with or without a point, of the multiples of `step` / 10^places. */
  multiple(step: bigint, places: number, rest = 0n, after = -1): Regex {
    const of = { step, places, rest, after };
    const scaled = rest * 10n ** BigInt(places - Math.max(after, 0));
    return this.#intern(`%${step},${places},${rest},${after}`, { type: 'multiple', of }, scaled % step === 0n, false);
  }

  /** The language of what may follow a character. */
  derive(regex: Regex, code: number): Regex {
    this.#steps++;
    const { form } = regex;
    switch (form.type) {
      case 'none':
      case 'empty':
        return this.none;
      case 'chars':
        return form.ranges.some((low, i) => i % 2 === 0 && code >= low && code <= form.ranges[i + 1]) ? this.empty : this.none;
      case 'sequence': {
        const after = this.sequence(this.derive(form.first, code), form.rest);
        return form.first.nullable ? this.choice([after, this.derive(form.rest, code)]) : after;
      }
      case 'choice':
        return this.choice(form.parts.map((part) => this.derive(part, code)));
      case 'all':
        return this.all(form.parts.map((part) => this.derive(part, code)));
      case 'not':
        return this.not(this.derive(form.item, code));
      case 'repeat':
        return this.sequence(this.derive(form.item, code), this.repeat(form.item, Math.max(0, form.min - 1), form.max - 1));
      case 'words':
        return this.#nextOf(form).get(code) ?? this.none;
      case 'multiple':
        return this.#afterDigit(form.of, code);
    }
  }

  #afterDigit({ step, places, rest, after }: Multiple, code: number): Regex {
    if (code === 46) return after === -1 ? this.multiple(step, places, rest, 0) : this.none;
    if (code < 48 || code > 57) return this.none;
    // Digits past the last place are zeros.
    if (after === places) return code === 48 ? this.multiple(step, places, rest, after) : this.none;
    const next = rest * 10n + BigInt(code - 48);
    // Before the last place, the remainder is taken modulo the whole step, which keeps it exact.
    return this.multiple(step, places, next % step, after === -1 ? -1 : after + 1);
  }

  /** Transitions by ascending code points, without those that lead nowhere. */
  edges(regex: Regex): readonly Edge[] {
    if (regex.edges) return regex.edges;
    const cuts = new Set<number>([0]);
    this.#addCuts(regex, cuts);
    const starts = [...cuts].filter((cut) => cut <= MAX_CODE_POINT).sort((a, b) => a - b);
    const edges: { low: number; high: number; to: Regex }[] = [];
    for (const [i, low] of starts.entries()) {
      const high = (starts[i + 1] ?? MAX_CODE_POINT + 1) - 1;
      const to = this.derive(regex, low);
      if (to === this.none) continue;
      const last = edges.at(-1);
      if (last?.to === to && last.high === low - 1) last.high = high;
      else edges.push({ low, high, to });
    }
    return (regex.edges = edges);
  }

  /**
   * True if some text belongs to the language.
   * @throws TooManyStates
   */
  *isLive(start: Regex): Work<boolean> {
    if (start.nullable || start.plain) return start !== this.none;
    if (start.live !== undefined) return start.live;
    const from = new Map<Regex, Regex | undefined>([[start, undefined]]);
    let visited = 0;
    const most = this.limited ? MAX_STEPS : Infinity;
    // The map grows during iteration, and the loop visits what is added.
    for (const regex of from.keys()) {
      if (++visited % STRIDE === 0) yield;
      if (visited > MAX_VISITED || this.#steps > most) throw new TooManyStates();
      if (regex.nullable || regex.live || (regex.plain && regex !== this.none)) {
        for (let on: Regex | undefined = regex; on; on = from.get(on)) on.live = true;
        return true;
      }
      if (regex.live === undefined) for (const { to } of this.edges(regex)) if (!from.has(to)) from.set(to, regex);
    }
    for (const regex of from.keys()) regex.live = false;
    return false;
  }

  /** All texts of a language; undefined if there are more than `most`, or endlessly many. */
  listed(regex: Regex, most: number): readonly string[] | undefined {
    const texts: string[] = [];
    let steps = 0;
    const visit = (at: Regex, text: string): boolean => {
      if (++steps > 64 * most || text.length > MAX_LISTED_LENGTH) return false;
      if (at.nullable && texts.push(text) > most) return false;
      for (const { low, high, to } of this.edges(at)) {
        if (high - low > most) return false;
        for (let code = low; code <= high; code++) if (!visit(to, text + String.fromCodePoint(code))) return false;
      }
      return true;
    };
    return visit(regex, '') ? texts : undefined;
  }

  /** True if a text belongs to the language. */
  matches(regex: Regex, text: string): boolean {
    return this.#matchesWithin(regex, text, Infinity);
  }

  #matchesWithin(regex: Regex, text: string, steps: number): boolean {
    const { form } = regex;
    const matches = (part: Regex): boolean => this.#matchesWithin(part, text, steps);
    if (form.type === 'words') return form.words.has(text);
    if (form.type === 'not') return !matches(form.item);
    if (form.type === 'all') return form.parts.every(matches);
    if (form.type === 'choice') return form.parts.some(matches);
    let at = regex;
    for (const c of text) {
      if (at === this.anything) return true;
      if (at === this.none || this.#steps > steps) return false;
      at = this.derive(at, c.codePointAt(0)!);
    }
    return at.nullable;
  }

  /** Adds the code points at which transitions of a language may change. */
  #addCuts(regex: Regex, cuts: Set<number>): void {
    const { form } = regex;
    switch (form.type) {
      case 'none':
      case 'empty':
        return;
      case 'chars':
        for (let i = 0; i < form.ranges.length; i += 2) cuts.add(form.ranges[i]).add(form.ranges[i + 1] + 1);
        return;
      case 'sequence':
        this.#addCuts(form.first, cuts);
        if (form.first.nullable) this.#addCuts(form.rest, cuts);
        return;
      case 'choice':
      case 'all':
        for (const part of form.parts) this.#addCuts(part, cuts);
        return;
      case 'not':
      case 'repeat':
        this.#addCuts(form.item, cuts);
        return;
      case 'words':
        for (const code of this.#nextOf(form).keys()) cuts.add(code).add(code + 1);
        return;
      case 'multiple':
        for (let code = 46; code <= 58; code++) cuts.add(code);
    }
  }
}
