/** Languages of bare strings that readers of calls take for strings, and not for something else. */
import type { ValueKind } from '../../chat/argument-types.ts';
import { KIND } from '../schema/facts.ts';
import type { Languages, Regex } from '../schema/regex.ts';

/** Kinds of a reader as bits of a compiled schema. */
const BITS: Readonly<Record<ValueKind, number>> = {
  string: KIND.string,
  number: KIND.number,
  boolean: KIND.true | KIND.false,
  null: KIND.null,
  object: KIND.object,
  array: KIND.array,
};

export const bitsOf = (kinds: ReadonlySet<ValueKind>): number => [...kinds].reduce((bits, kind) => bits | BITS[kind], 0);

/** Code points that String.trim() removes, as flat ranges. */
const BLANKS = [
  9, 13, 32, 32, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff,
];

/** Makes the languages for one schema. */
export class Readable {
  readonly #languages: Languages;
  readonly #blanks: Regex;

  constructor(languages: Languages) {
    this.#languages = languages;
    this.#blanks = languages.repeat(languages.chars(BLANKS), 0, Infinity);
  }

  /** Texts without any of these words inside. */
  without(words: readonly string[]): Regex {
    const { anything } = this.#languages;
    const inside = words.filter((word) => word !== '').map((word) => this.#join(anything, this.#languages.text(word), anything));
    return this.#languages.not(this.#languages.choice(inside));
  }

  /** Texts that do not begin so. */
  notBegun(begin: string): Regex {
    return this.#languages.not(this.#join(this.#languages.text(begin), this.#languages.anything));
  }

  /** Texts that do not begin so after blanks. */
  notAfterBlanks(begin: string): Regex {
    return this.#languages.not(this.#join(this.#blanks, this.#languages.text(begin), this.#languages.anything));
  }

  /** Texts that are strings where values of these kinds are read. */
  strings(kinds: ReadonlySet<ValueKind>): Regex {
    const { anything } = this.#languages;
    if (kinds.size === 1) return anything;
    const others: Regex[] = [];
    if (kinds.has('number')) others.push(this.#alone(this.#number()));
    if (kinds.has('boolean')) others.push(this.#alone(this.#languages.words(['true', 'false', 'True', 'False'])));
    if (kinds.has('null')) others.push(this.#alone(this.#languages.words(['null', 'None'])));
    const begins = [...(kinds.has('object') ? ['{'] : []), ...(kinds.has('array') ? ['['] : []), ...(kinds.size === 6 ? ['"'] : [])];
    for (const begin of begins) others.push(this.#join(this.#blanks, this.#languages.text(begin), anything));
    return this.#languages.not(this.#languages.choice(others));
  }

  #alone(language: Regex): Regex {
    return this.#join(this.#blanks, language, this.#blanks);
  }

  #number(): Regex {
    const { chars, repeat } = { chars: (from: number, to: number) => this.#languages.chars([from, to]), repeat: this.#languages };
    const digits = repeat.repeat(chars(48, 57), 1, Infinity);
    const optional = (language: Regex): Regex => repeat.repeat(language, 0, 1);
    const exponent = this.#join(this.#languages.chars([69, 69, 101, 101]), optional(this.#languages.chars([43, 43, 45, 45])), digits);
    return this.#join(optional(chars(45, 45)), digits, optional(this.#join(chars(46, 46), digits)), optional(exponent));
  }

  #join(...parts: readonly Regex[]): Regex {
    return parts.reduceRight((rest, first) => this.#languages.sequence(first, rest));
  }
}
