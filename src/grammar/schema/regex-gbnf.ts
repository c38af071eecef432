/** Writes regular languages as GBNF. */
import type { Work } from '../../slices.ts';
import { gbnfChoice, gbnfClass, gbnfRepeat, gbnfSequence, gbnfText } from '../gbnf-text.ts';
import { normalizeRanges } from '../ranges.ts';
import type { Languages, Regex } from './regex.ts';
import type { RuleBook } from './rule-book.ts';
import { MAX_LANGUAGE_STATES, writeStates, type Step } from './state-rules.ts';

/** Characters that JSON escapes: [low, high] ranges. */
const ESCAPED = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
] as const;
/** Number of characters that JSON escapes. */
const ESCAPES = 34;

const QUOTE = gbnfText('"');
const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

export class RegexGbnf {
  readonly #languages: Languages;
  readonly #book: RuleBook;
  /** True for the contents of JSON strings; false for texts as they are. */
  readonly #json: boolean;
  /** Names of rules by language. */
  readonly #names = new Map<Regex, string>();

  constructor(languages: Languages, book: RuleBook, json: boolean) {
    this.#languages = languages;
    this.#book = book;
    this.#json = json;
  }

  /**
   * The texts of a language that is not empty.
   * @param hint for the names of rules
   */
  *of(regex: Regex, hint: string): Work<string> {
    if (regex.plain) return this.#plain(regex);
    const stepsOf = (state: Regex): Step<Regex>[] => this.#steps(state);
    return (yield* writeStates(this.#book, hint, regex, stepsOf, this.#names, MAX_LANGUAGE_STATES)) ?? '';
  }

  /** The JSON strings whose contents belong to a language that is not empty. */
  *quoted(regex: Regex, hint: string): Work<string> {
    const { form } = regex;
    if (form.type === 'words') return gbnfChoice([...form.words].map((word) => gbnfText(JSON.stringify(word))));
    return gbnfSequence(QUOTE, yield* this.of(regex, hint), QUOTE);
  }

  #steps(regex: Regex): Step<Regex>[] {
    if (regex === this.#languages.none) return [];
    if (regex.plain) return [{ text: this.#plain(regex), to: undefined }];
    const { form } = regex;
    if (form.type === 'choice') return form.parts.map((part) => ({ text: '', to: part }));
    if (form.type === 'sequence' && form.first.plain) return [{ text: this.#plain(form.first), to: form.rest }];
    const sets = new Map<Regex, [low: number, high: number][]>();
    for (const { low, high, to } of this.#languages.edges(regex)) {
      if (to.live === false) continue;
      const known = sets.get(to);
      if (known) known.push([low, high]);
      else sets.set(to, [[low, high]]);
    }
    const steps: Step<Regex>[] = [];
    for (const [to, set] of sets) {
      const ranges = normalizeRanges(set, false);
      if (ranges.length > 0) steps.push({ text: this.#class(ranges), to });
    }
    return regex.nullable ? [{ text: '', to: undefined }, ...steps] : steps;
  }

  /** A language without intersection and complement, as its expression says. */
  #plain(regex: Regex): string {
    const { form } = regex;
    switch (form.type) {
      case 'chars':
        return this.#class(form.ranges);
      case 'sequence':
        return this.#sequence(regex);
      case 'choice':
        return gbnfChoice(form.parts.map((part) => this.#plain(part)));
      case 'repeat':
        return gbnfRepeat(this.#plain(form.item), form.min, form.max);
      case 'words':
        return gbnfChoice([...form.words].map((word) => (word === '' ? '' : this.#text(word))));
      default:
        return '';
    }
  }

  #sequence(regex: Regex): string {
    const parts: string[] = [];
    let text = '';
    const endText = (): void => {
      if (text !== '') parts.push(this.#text(text));
      text = '';
    };
    let at = regex;
    for (let more = true; more;) {
      more = at.form.type === 'sequence';
      const part = at.form.type === 'sequence' ? at.form.first : at;
      if (at.form.type === 'sequence') at = at.form.rest;
      const { form } = part;
      if (form.type === 'chars' && form.ranges.length === 2 && form.ranges[0] === form.ranges[1])
        text += String.fromCodePoint(form.ranges[0]);
      else {
        endText();
        parts.push(this.#plain(part));
      }
    }
    endText();
    return gbnfSequence(...parts);
  }

  #text(text: string): string {
    return gbnfText(this.#json ? inJson(text) : text);
  }

  /** One character of a set, escaped if JSON requires that. */
  #class(ranges: readonly number[]): string {
    if (!this.#json) return gbnfClass(ranges);
    if (this.#languages.chars(ranges) === this.#languages.character) return this.#book.share('char');
    const bare: number[] = [];
    const escapes: number[] = [];
    for (let i = 0; i < ranges.length; i += 2) {
      let from = ranges[i];
      const end = ranges[i + 1];
      for (const [low, high] of ESCAPED) {
        if (from < low && end >= from) bare.push(from, Math.min(end, low - 1));
        for (let code = Math.max(low, from); code <= Math.min(high, end); code++) escapes.push(code);
        from = Math.max(from, high + 1);
      }
      if (from <= end) bare.push(from, end);
    }
    const options = bare.length > 0 ? [gbnfClass(bare)] : [];
    if (escapes.length === ESCAPES) options.push(this.#book.share('escaped'));
    else for (const code of escapes) options.push(gbnfText(inJson(String.fromCodePoint(code))));
    return gbnfChoice(options);
  }
}
