/** Writes the values of rules as GBNF: a rule of the grammar for each. */
import type { Work } from '../../slices.ts';
import { gbnfText } from '../gbnf-text.ts';
import { NO_VALUE, schemaError } from '../schema-error.ts';
import { writeArray } from './array-gbnf.ts';
import { ALL_KINDS, KIND } from './facts.ts';
import { ANY_NUMBER } from './number-facts.ts';
import { writeObject, type PartWriter } from './object-gbnf.ts';
import type { ObjectShape, OtherValues } from './object-shape.ts';
import { RegexGbnf } from './regex-gbnf.ts';
import type { Regex } from './regex.ts';
import type { Rule } from './rule.ts';
import { RuleBook } from './rule-book.ts';
import type { Alternative, Rules } from './rules.ts';

export class ValueGbnf implements PartWriter {
  readonly book = new RuleBook();
  readonly #rules: Rules;
  readonly #contents: RegexGbnf;
  readonly #digits: RegexGbnf;
  readonly #anyInteger: Regex;
  /** Names of rules. Those at the end of the map are not written yet. */
  readonly #names = new Map<Rule, string>();

  constructor(rules: Rules) {
    const { languages, numbers } = rules.expander;
    this.#rules = rules;
    this.#contents = new RegexGbnf(languages, this.book, true);
    this.#digits = new RegexGbnf(languages, this.book, false);
    this.#anyInteger = numbers.of({ ...ANY_NUMBER, whole: true });
  }

  /** The grammar of a rule that has values. */
  *text(root: Rule): Work<string> {
    this.#names.set(root, 'root');
    // The map grows during iteration, and the loop visits what is added.
    for (const [rule, name] of this.#names) {
      const options = new Set<string>();
      for (const alternative of this.#rules.alternativesOf(rule))
        for (const option of yield* this.#alternative(alternative, name, rule.parts[0]?.pointer ?? '')) options.add(option);
      // Some contradictions are seen only now, when the states of an object are written.
      if (options.size === 0) throw schemaError(rule.parts[0]?.pointer ?? '', NO_VALUE);
      this.book.write(name, [...options].join(' | '));
      yield;
    }
    return this.book.text();
  }

  refer(rule: Rule): string {
    const free = this.#sharedNameOf(rule);
    if (free !== undefined) return this.book.share(free);
    let name = this.#names.get(rule);
    if (name === undefined) this.#names.set(rule, (name = this.book.nameFor(rule.parts.at(-1)?.pointer ?? '')));
    return name;
  }

  /** The shared rule with the same values, if there is one. */
  #sharedNameOf(rule: Rule): string | undefined {
    const [alternative, ...others] = this.#rules.alternativesOf(rule);
    if (others.length > 0) return undefined;
    const kinds = this.#rules.writtenKinds(alternative);
    if (kinds === KIND.null) return 'null';
    if (kinds === BOOLEAN) return 'boolean';
    const free = this.#freeKinds(alternative);
    if (kinds === ALL_KINDS) return (free & ALL_KINDS) === ALL_KINDS && alternative.numbers === ANY_NUMBER ? 'value' : undefined;
    const name = NAMES.get(kinds);
    return name !== undefined && free & kinds ? (name === 'number' ? this.#numberName(alternative) : name) : undefined;
  }

  /** The kinds of values that a shared rule describes. */
  #freeKinds(alternative: Alternative): number {
    const { string, object, array } = alternative;
    return (
      KIND.null |
      BOOLEAN |
      (string === this.#rules.expander.languages.anything ? KIND.string : 0) |
      (this.#numberName(alternative) === undefined ? 0 : KIND.number) |
      (object?.isFree ? KIND.object : 0) |
      (array?.isFree ? KIND.array : 0)
    );
  }

  #numberName({ numbers }: Alternative): string | undefined {
    if (numbers === ANY_NUMBER) return 'number';
    return numbers && this.#rules.expander.numbers.of(numbers) === this.#anyInteger ? 'integer' : undefined;
  }

  *#alternative(alternative: Alternative, hint: string, pointer: string): Work<string[]> {
    const { string, numbers, object, array } = alternative;
    const { none } = this.#rules.expander.languages;
    const kinds = this.#rules.writtenKinds(alternative);
    const free = kinds & this.#freeKinds(alternative);
    const options: (string | undefined)[] = [];
    if (kinds & KIND.object)
      options.push(free & KIND.object ? this.book.share('object') : object?.hasValue() ? yield* this.#object(object, hint) : undefined);
    if (kinds & KIND.array)
      options.push(
        free & KIND.array ? this.book.share('array') : array?.hasValue() ? yield* writeArray(this, `${hint}-items`, array) : undefined,
      );
    if (free & KIND.string) options.push(this.book.share('string'));
    else if (kinds & KIND.string && string !== none) options.push(yield* this.#string(string, hint, pointer));
    if (free & KIND.number) options.push(this.book.share(this.#numberName(alternative)!));
    else if (kinds & KIND.number && numbers) options.push(yield* this.#digits.of(this.#rules.expander.numbers.of(numbers), hint));
    if ((kinds & BOOLEAN) === BOOLEAN) options.push(this.book.share('boolean'));
    else if (kinds & BOOLEAN) options.push(gbnfText(String((kinds & KIND.true) !== 0)));
    if (kinds & KIND.null) options.push(this.book.share('null'));
    return options.filter((option) => option !== undefined);
  }

  /** Strings, without their lengths and what they must not be if the rules become too many. */
  *#string(language: Regex, hint: string, pointer: string): Work<string> {
    try {
      return yield* this.#contents.quoted(language, hint);
    } catch (error) {
      this.#rules.relaxations.addError(pointer, 'maxLength', error);
      const wide =
        language.form.type === 'all' ? language.form.parts.find(({ plain, form }) => plain && form.type !== 'repeat') : undefined;
      return wide ? yield* this.#contents.quoted(wide, hint) : this.book.share('string');
    }
  }

  *#object(shape: ObjectShape, hint: string): Work<string | undefined> {
    const others: (OtherValues & { readonly key: string })[] = [];
    for (const other of shape.othersThat(true)) {
      const isFree = other.language === this.#rules.expander.languages.anything;
      others.push({ ...other, key: isFree ? this.book.share('string') : yield* this.#contents.quoted(other.language, `${hint}-key`) });
    }
    return yield* writeObject(this, hint, shape, others);
  }
}

const BOOLEAN = KIND.true | KIND.false;
/** Names of shared rules, by the kind of their values. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [KIND.string, 'string'],
  [KIND.number, 'number'],
  [KIND.object, 'object'],
  [KIND.array, 'array'],
]);
