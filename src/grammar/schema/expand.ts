/** Expands schemas to alternatives in plain form. */
import type { Work } from '../../slices.ts';
import { WrittenNumber } from '../exact-number.ts';
import { ARRAY_KEYWORDS } from './array-keywords.ts';
import { COMBINATORS } from './combinators.ts';
import { SchemaDocument } from './document.ts';
import { ANYTHING, both, KIND, type Facts, type ObjectFacts, type Part } from './facts.ts';
import { shown } from '../schema.ts';
import type { Expansion, Keywords, Meaning, Reading } from './keyword.ts';
import { hasNumber, type NumberFacts } from './number-facts.ts';
import { NumberLanguages } from './numbers.ts';
import { alternativesOf, OBJECT_KEYWORDS } from './object-keywords.ts';
import { Languages, TooManyStates, type Regex } from './regex.ts';
import { Malformed, Unheld, type Relaxations } from './relaxed.ts';
import { SCALAR_KEYWORDS } from './scalar-keywords.ts';
import { UNEVALUATED } from './unevaluated-keywords.ts';

/** Limit of alternatives of a schema. */
const MAX_ALTERNATIVES = 500;
/** Limit of pairs of alternatives combined for one schema document. */
const MAX_PAIRS = 100_000;
/** Deepest chain of schemas that apply to the same value. */
const MAX_CHAIN = 100;
/** Depth of required properties that are looked at to find contradictions. */
const LOOK_DEPTH = 3;

/** Limits of alternatives that are looked at: of a property, and in one document. */
const MAX_LOOKED_AT = 16;
const MAX_LOOKED = 50_000;

/** Keywords in the order in which they are read: those with many alternatives last. */
const KEYWORDS: ReadonlyMap<string, { readonly order: number; readonly meaning: Meaning }> = new Map(
  Object.entries({ ...SCALAR_KEYWORDS, ...OBJECT_KEYWORDS, ...ARRAY_KEYWORDS, ...COMBINATORS, ...UNEVALUATED }).map(
    ([keyword, meaning], order) => [keyword, { order, meaning }],
  ),
);

const keyOf = ({ pointer, negated, schema }: Part): string =>
  typeof schema === 'boolean' ? String(schema === !negated) : `${negated ? '!' : ''}#${pointer}`;

/** Identifies schemas that must be satisfied together; empty if anything satisfies them. */
export const keyOfAll = (parts: readonly Part[]): string =>
  [...new Set(parts.map(keyOf))]
    .filter((key) => key !== 'true')
    .sort()
    .join('&');

/** Expands the schemas of one document, within limits. */
export class Expander implements Expansion {
  readonly languages = new Languages();
  readonly numbers = new NumberLanguages(this.languages);
  readonly #document: SchemaDocument;
  readonly #relaxations: Relaxations;
  /** Alternatives by schema; undefined while a schema is expanded. */
  readonly #known = new Map<string, readonly Facts[] | undefined>();
  /** Languages of the strings that facts allow. */
  readonly #texts = new WeakMap<Facts['strings'], Regex>();
  /** True if no value satisfies schemas together, by key. */
  readonly #void = new Map<string, boolean>();
  #pairs = 0;
  #looked = 0;
  #depth = 0;

  constructor(schema: Part['schema'], relaxations: Relaxations) {
    this.#document = new SchemaDocument(schema);
    this.#relaxations = relaxations;
  }

  relax(pointer: string, keyword: string, why: string): void {
    this.#relaxations.add(pointer, keyword, why);
  }

  follow(reference: unknown, pointer: string): Part {
    let target = this.#document.follow(reference, pointer);
    // A schema that is only a reference is its target, so that equal targets become one rule.
    for (let i = 0; i < MAX_CHAIN; i++) {
      const { schema } = target;
      if (typeof schema !== 'object' || schema === null || schema.$ref === undefined || Object.keys(schema).length > 1) return target;
      target = this.#document.follow(schema.$ref, target.pointer);
    }
    throw new Malformed('it leads back to itself with no other schema in between; expected a schema on the way');
  }

  get hasUnevaluated(): boolean {
    return this.#document.hasUnevaluated;
  }

  followDynamic(reference: unknown, pointer: string): Part {
    return this.#document.followDynamic(reference, pointer);
  }

  *expand(part: Part): Work<readonly Facts[]> {
    const { schema, pointer, negated = false } = part;
    if (schema === !negated) return [ANYTHING];
    if (schema === negated) return [];
    const key = keyOf(part);
    if (this.#known.has(key)) {
      const known = this.#known.get(key);
      if (!known) throw new Malformed('it leads back to itself with no other schema in between; expected a schema on the way');
      return known;
    }
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema) || schema instanceof WrittenNumber) {
      this.#relaxAt(pointer, new Malformed(`found ${shown(schema)}; expected true, false or an object`));
      return [ANYTHING];
    }
    if (this.#depth >= MAX_CHAIN) throw new Unheld(`more than ${MAX_CHAIN} schemas apply to one value; expected fewer references`);
    this.#depth++;
    this.#known.set(key, undefined);
    try {
      const alternatives = yield* negated ? this.#no(schema, pointer) : this.#yes(schema, pointer);
      this.#known.set(key, alternatives);
      return alternatives;
    } finally {
      this.#depth--;
      if (!this.#known.get(key)) this.#known.delete(key);
    }
  }

  /** Names what is not a schema by the keyword that has it. */
  #relaxAt(pointer: string, error: Malformed): void {
    const at = pointer.lastIndexOf('/');
    this.#relaxations.addError(pointer.slice(0, Math.max(0, at)), pointer.slice(at + 1), error);
  }

  #readings(schema: Keywords, pointer: string): [Meaning, Reading][] {
    const found = Object.keys(schema).flatMap((keyword) => {
      const known = KEYWORDS.get(keyword);
      return known && schema[keyword] !== undefined && !this.#document.ignores(keyword, schema) ? [{ keyword, ...known }] : [];
    });
    found.sort((a, b) => a.order - b.order);
    return found.map(({ keyword, meaning }) => [meaning, { value: schema[keyword], keyword, schema, pointer, context: this }]);
  }

  *#yes(schema: Keywords, pointer: string): Work<readonly Facts[]> {
    let alternatives: readonly Facts[] = [ANYTHING];
    for (const [meaning, reading] of this.#readings(schema, pointer)) {
      const { keyword } = reading;
      try {
        alternatives = meaning.after
          ? meaning.after(alternatives, reading)
          : yield* this.product([alternatives, yield* alternativesOf(meaning.yes(reading))]);
      } catch (error) {
        this.#relaxations.addError(pointer, keyword, error);
        if (this.hasUnevaluated) alternatives = alternatives.map((facts) => ({ ...facts, partial: true }));
      }
    }
    return alternatives;
  }

  *#no(schema: Keywords, pointer: string): Work<readonly Facts[]> {
    const options: Facts[] = [];
    for (const [meaning, reading] of this.#readings(schema, pointer)) {
      try {
        options.push(...(yield* alternativesOf(meaning.no(reading))));
      } catch (error) {
        this.#relaxations.addError(pointer, reading.keyword, error);
        return [ANYTHING];
      }
      if (options.includes(ANYTHING)) return [ANYTHING];
    }
    return options;
  }

  *product(lists: readonly (readonly Facts[])[]): Work<readonly Facts[]> {
    let all: readonly Facts[] = [ANYTHING];
    for (const list of lists) {
      const pairs: Facts[] = [];
      const looks = all.length * list.length > 1 || lists.length > 2;
      for (const a of all) {
        for (const b of list) {
          if (++this.#pairs > MAX_PAIRS)
            throw new Unheld('schemas combine to too many alternatives; expected fewer anyOf, oneOf, not and if');
          if (this.#pairs % 64 === 0) yield;
          const facts = this.#both(a, b);
          if (facts && !((looks || (a !== ANYTHING && b !== ANYTHING)) && (yield* this.#isVoid(facts, LOOK_DEPTH)))) pairs.push(facts);
        }
      }
      if (pairs.length > MAX_ALTERNATIVES)
        throw new Unheld(`schemas combine to more than ${MAX_ALTERNATIVES} alternatives; expected fewer anyOf, oneOf, not and if`);
      all = pairs;
    }
    return all;
  }

  #both(a: Facts, b: Facts): Facts | undefined {
    const facts = both(a, b);
    // From the languages of both, because the list of all keywords may be long.
    if (facts && !this.#texts.has(facts.strings))
      this.#texts.set(facts.strings, this.languages.all([this.#textsOf(a.strings), this.#textsOf(b.strings)]));
    return facts;
  }

  /** The strings that all keywords allow. */
  #textsOf(strings: Facts['strings']): Regex {
    let language = this.#texts.get(strings);
    if (!language) this.#texts.set(strings, (language = this.languages.all(strings.map((fact) => fact.language))));
    return language;
  }

  *strings(part: Part): Work<Regex> {
    const options: Regex[] = [];
    for (const facts of yield* this.expand(part)) if (facts.kinds & KIND.string) options.push(this.#textsOf(facts.strings));
    return this.languages.choice(options);
  }

  /** True if it is easily seen that no value has these facts. Looks `depth` required properties deep. */
  *#isVoid({ kinds, strings, numbers, objects }: Facts, depth: number): Work<boolean> {
    if (kinds & (KIND.null | KIND.true | KIND.false | KIND.array)) return false;
    if (kinds & KIND.string && (yield* this.isLive(this.#textsOf(strings)))) return false;
    if (kinds & KIND.number && (yield* this.hasNumber(numbers))) return false;
    if (kinds & KIND.object) return depth > 0 && (yield* this.#lacksValue(objects, depth));
    return true;
  }

  /** True if some required property can have no value. */
  *#lacksValue(objects: ObjectFacts, depth: number): Work<boolean> {
    if (objects.sources.length < 2) return false;
    for (const name of objects.required) {
      const parts = this.partsOf(objects, name);
      if (!parts) return true;
      if (parts.length < 1) continue;
      const key = `${keyOfAll(parts)} ${depth}`;
      let empty = this.#void.get(key);
      if (empty === undefined) {
        this.#void.set(key, false); // Schemas that contain themselves are not looked at twice.
        empty = yield* this.#areVoid(parts, depth - 1);
        this.#void.set(key, empty);
      }
      if (empty) return true;
    }
    return false;
  }

  *#areVoid(parts: readonly Part[], depth: number): Work<boolean> {
    let all: readonly Facts[] = [ANYTHING];
    for (const part of parts) {
      const pairs: Facts[] = [];
      for (const b of yield* this.#expandQuietly(part))
        for (const a of all) {
          if (++this.#looked > MAX_LOOKED) return false;
          const facts = this.#both(a, b);
          if (facts && !(yield* this.#isVoid(facts, depth))) pairs.push(facts);
          if (pairs.length > MAX_LOOKED_AT) return false;
        }
      all = pairs;
    }
    return all.length === 0;
  }

  /** The alternatives of a schema; anything, if they are not known yet or too many. */
  *#expandQuietly(part: Part): Work<readonly Facts[]> {
    try {
      return yield* this.expand(part);
    } catch (error) {
      if (!(error instanceof Unheld)) throw error;
      return [ANYTHING];
    }
  }

  /** The schemas that a property's value must satisfy; undefined if the name is not allowed. */
  partsOf(objects: ObjectFacts, name: string): readonly Part[] | undefined {
    if (!objects.names.every((language) => this.languages.matches(language, name))) return undefined;
    const parts: Part[] = [];
    for (const { properties, patterns, others } of objects.sources) {
      const own = properties.get(name);
      const matching = patterns.filter(({ language }) => this.languages.matches(language, name));
      if (own) parts.push(own);
      parts.push(...matching.map(({ part }) => part));
      if (!own && matching.length === 0 && others) parts.push(others);
    }
    return parts;
  }

  *hasNumber(facts: NumberFacts): Work<boolean> {
    return hasNumber(facts) ?? (yield* this.isLive(this.numbers.of(facts)));
  }

  *isLive(language: Regex): Work<boolean> {
    try {
      return yield* this.languages.isLive(language);
    } catch (error) {
      // Such a language is refused when its rule is made.
      if (error instanceof TooManyStates) return true;
      throw error;
    }
  }
}
