/**
 * Rules for values that satisfy several schemas together: their alternatives by kind of value, with
 * the rules of the parts.
 */
import type { Work } from '../../slices.ts';
import { schemaError } from '../schema-error.ts';
import { arrayShape, type ArrayShape } from './array-shape.ts';
import { Expander, keyOfAll } from './expand.ts';
import { ALL_KINDS, ANYTHING, KIND, type Facts, type ObjectFacts, type Part, type StringFact } from './facts.ts';
import { ANY_NUMBER, type NumberFacts } from './number-facts.ts';
import { objectShape, type ObjectShape } from './object-shape.ts';
import type { Regex } from './regex.ts';
import { Relaxations, Unheld, type Strictness } from './relaxed.ts';
import type { Rule, RuleMaker } from './rule.ts';

/** Values of several kinds; each kind's values are described apart. */
export interface Alternative {
  readonly kinds: number;
  readonly typed: boolean;
  readonly string: Regex;
  /** undefined if no number is allowed. */
  readonly numbers: NumberFacts | undefined;
  readonly object: ObjectShape | undefined;
  readonly array: ArrayShape | undefined;
}

/** Limit of rules. Real schemas have tens to thousands. */
const MAX_RULES = 20_000;

export class Rules implements RuleMaker {
  readonly expander: Expander;
  readonly relaxations: Relaxations;
  readonly #known = new Map<string, Rule>();
  readonly #all: Rule[] = [];
  readonly #alternatives = new Map<Rule, readonly Alternative[]>();
  #current: Rule | undefined;

  constructor(schema: Part['schema'], strictness: Strictness) {
    this.relaxations = new Relaxations(strictness);
    this.expander = new Expander(schema, this.relaxations);
  }

  /** The rule for values that satisfy all of these schemas. It is filled in by compile(). */
  ruleFor(parts: readonly Part[]): Rule {
    const key = keyOfAll(parts);
    let rule = this.#known.get(key);
    if (!rule) {
      if (this.#all.length >= MAX_RULES)
        throw schemaError('', `the schema combines to more than ${MAX_RULES} rules; expected fewer properties, or fewer combinations`);
      rule = { parts, productive: false, parents: new Set() };
      this.#known.set(key, rule);
      this.#all.push(rule);
    }
    if (this.#current) rule.parents.add(this.#current);
    return rule;
  }

  /** The alternatives of a rule, once compiled. */
  alternativesOf(rule: Rule): readonly Alternative[] {
    return this.#alternatives.get(rule) ?? [];
  }

  /** Fills in the rule of a schema and all rules that it needs. */
  *compile(root: Part): Work<Rule> {
    const first = this.ruleFor([root]);
    // The list grows during iteration, and the loop visits what is added.
    for (const rule of this.#all) {
      this.#current = rule;
      const alternatives: Alternative[] = [];
      for (const facts of yield* this.#factsOf(rule.parts)) alternatives.push(yield* this.#alternative(facts, rule));
      this.#alternatives.set(rule, alternatives);
      yield;
    }
    this.#current = undefined;
    for (const rule of this.#all) for (const { array } of this.alternativesOf(rule)) if (array) this.#finishUnique(array);
    yield* this.#findProductive();
    this.expander.languages.limited = false;
    return first;
  }

  *#factsOf(parts: readonly Part[]): Work<readonly Facts[]> {
    let all: readonly Facts[] = [ANYTHING];
    for (const part of parts) {
      try {
        all = yield* this.expander.product([all, yield* this.expander.expand(part)]);
      } catch (error) {
        this.relaxations.addError(part.pointer, 'allOf', error);
      }
    }
    return all;
  }

  *#alternative({ kinds, typed, strings, numbers, objects, arrays }: Facts, { parts }: Rule): Work<Alternative> {
    const { languages } = this.expander;
    const string = kinds & KIND.string ? yield* this.#language(strings) : languages.none;
    return {
      kinds,
      typed,
      string,
      numbers: kinds & KIND.number && (yield* this.expander.hasNumber(numbers)) ? numbers : undefined,
      object: kinds & KIND.object ? yield* this.#object(objects, parts[0]?.pointer ?? '') : undefined,
      array: kinds & KIND.array ? arrayShape(this, arrays) : undefined,
    };
  }

  /** The objects that all keywords allow. Patterns of names that are too many are left out. */
  *#object(facts: ObjectFacts, pointer: string): Work<ObjectShape> {
    try {
      return yield* objectShape(this, facts);
    } catch (error) {
      this.relaxations.addError(pointer, 'patternProperties', error);
      const sources = facts.sources.map((source) => ({
        ...source,
        patterns: [],
        others: source.patterns.length > 0 ? undefined : source.others,
      }));
      return yield* objectShape(this, { ...facts, sources, witnesses: [], names: [] });
    }
  }

  /** The strings that all keywords allow. Keywords that combine to too many states are left out. */
  *#language(strings: readonly StringFact[]): Work<Regex> {
    const { languages } = this.expander;
    let language = languages.anything;
    for (const fact of strings) {
      const together = languages.all([language, fact.language]);
      try {
        language = (yield* languages.isLive(together)) ? together : languages.none;
      } catch (error) {
        this.relaxations.addError(fact.pointer, fact.keyword, error);
      }
    }
    return language;
  }

  /** uniqueItems is held where the items are listed values. */
  #finishUnique(array: ArrayShape): void {
    if (array.unique === undefined || array.max <= 1) return;
    const options = array.prefix.length === 0 && array.contains.length === 0 ? array.rest : undefined;
    const texts = options?.length === 1 ? this.textsOf(options[0].rule) : undefined;
    if (texts) array.texts = texts;
    else
      this.relaxations.addError(
        array.unique,
        'uniqueItems',
        new Unheld('equal items cannot be told apart unless all are listed by enum; expected maxItems 1, or a schema without uniqueItems'),
      );
  }

  /**
   * The kinds of values that are written: of an untyped schema, those that its keywords speak of, or
   * all if they speak of none.
   */
  writtenKinds({ kinds, typed, string, numbers, object, array }: Alternative): number {
    const { languages } = this.expander;
    if (typed || kinds !== ALL_KINDS) return kinds;
    let spoken = 0;
    if (string !== languages.none && string !== languages.anything) spoken |= KIND.string;
    if (numbers && numbers !== ANY_NUMBER) spoken |= KIND.number;
    if (object && !object.isFree) spoken |= KIND.object;
    if (array && !array.isFree) spoken |= KIND.array;
    return spoken === 0 ? kinds : spoken;
  }

  /** The JSON texts of all values of a rule; undefined if there are too many. */
  textsOf(rule: Rule): readonly string[] | undefined {
    const texts = new Set<string>();
    for (const { kinds, string, numbers: facts } of this.alternativesOf(rule)) {
      if (kinds & (KIND.array | KIND.object)) return undefined;
      if (kinds & KIND.null) texts.add('null');
      if (kinds & KIND.true) texts.add('true');
      if (kinds & KIND.false) texts.add('false');
      const { languages } = this.expander;
      const strings = languages.listed(string, MAX_LISTED);
      const numbers = facts ? languages.listed(this.expander.numbers.of(facts), MAX_LISTED) : [];
      if (!strings || !numbers) return undefined;
      for (const text of strings) texts.add(JSON.stringify(text));
      for (const text of numbers) texts.add(text);
    }
    return texts.size <= MAX_LISTED ? [...texts] : undefined;
  }

  /** Worklist: a rule is looked at again only when a rule that it needs turns out to have values. */
  *#findProductive(): Work<void> {
    const open = new Set(this.#all.toReversed());
    let steps = 0;
    for (const rule of open) {
      open.delete(rule);
      if (++steps % 256 === 0) yield;
      if (rule.productive || !this.alternativesOf(rule).some((alternative) => this.#hasValue(alternative))) continue;
      rule.productive = true;
      for (const parent of rule.parents) if (!parent.productive) open.add(parent);
    }
  }

  #hasValue({ kinds, string, numbers, object, array }: Alternative): boolean {
    const { none } = this.expander.languages;
    return (
      (kinds & (KIND.null | KIND.true | KIND.false)) !== 0 ||
      string !== none ||
      numbers !== undefined ||
      (object?.hasValue() ?? false) ||
      (array?.hasValue() ?? false)
    );
  }
}

/** Largest list of values whose uniqueness is held. */
const MAX_LISTED = 200;
