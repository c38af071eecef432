/** Arrays that satisfy the facts of one alternative. */
import type { ArrayFacts, Contains, Part } from './facts.ts';
import { negate } from './keyword.ts';
import type { Rule, RuleMaker } from './rule.ts';

/** Values of an item, and the schemas of `contains` that they count for. */
export interface ItemValues {
  readonly rule: Rule;
  readonly counts: readonly boolean[];
}

export class ArrayShape {
  /** Options for each listed item. */
  readonly prefix: readonly (readonly ItemValues[])[];
  /** Options for the items after them. */
  readonly rest: readonly ItemValues[];
  readonly min: number;
  readonly max: number;
  readonly contains: readonly Contains[];
  /** Pointer of uniqueItems. */
  readonly unique: string | undefined;
  /** True if a keyword gives the items after the listed ones a schema. */
  readonly asked: boolean;
  /** The JSON texts of all items, if each may come once. */
  texts: readonly string[] | undefined;

  constructor(prefix: ArrayShape['prefix'], rest: readonly ItemValues[], asked: boolean, { min, max, contains, unique }: ArrayFacts) {
    this.prefix = prefix;
    this.rest = rest;
    this.asked = asked;
    this.min = min;
    this.max = max;
    this.contains = contains;
    this.unique = unique;
  }

  /** True if the schema says nothing about arrays. */
  get isFree(): boolean {
    return this.prefix.length === 0 && !this.asked && this.min === 0 && this.max === Infinity && this.contains.length === 0;
  }

  /** The options for an item. */
  at(index: number): readonly ItemValues[] {
    return index < this.prefix.length ? this.prefix[index] : this.rest;
  }

  /** The largest number of items, as far as the rules of items are known to have values. */
  get reach(): number {
    const fits = (options: readonly ItemValues[]): boolean => options.some(({ rule }) => rule.productive);
    const end = this.prefix.findIndex((options) => !fits(options));
    const most = end >= 0 ? end : fits(this.rest) ? Infinity : this.prefix.length;
    return Math.min(this.max, most, this.texts?.length ?? Infinity);
  }

  /** True if some array has this shape, as far as the rules of its items are known to have values. */
  hasValue(): boolean {
    const { reach } = this;
    const positions = [...this.prefix.slice(0, reach), ...(reach > this.prefix.length ? [this.rest] : [])];
    return (
      this.min <= reach &&
      this.contains.every(
        ({ min }, i) =>
          min <= reach && (min === 0 || positions.some((options) => options.some(({ rule, counts }) => counts[i] && rule.productive))),
      )
    );
  }
}

export function arrayShape(rules: RuleMaker, facts: ArrayFacts): ArrayShape {
  const { sources, contains } = facts;
  const length = Math.max(0, ...sources.map(({ prefix }) => prefix.length));
  const at = (index: number): Part[] =>
    sources.flatMap(({ prefix, rest }) => (index < prefix.length ? [prefix[index]] : rest ? [rest] : []));
  const optionsOf = (parts: readonly Part[]): ItemValues[] => {
    let options: { readonly parts: readonly Part[]; readonly counts: readonly boolean[] }[] = [{ parts, counts: [] }];
    for (const { part, max } of contains) {
      options = options.flatMap(({ parts: own, counts }) => [
        { parts: [...own, part], counts: [...counts, true] },
        // Without a largest count, an item that satisfies the schema need not be counted.
        { parts: max === Infinity ? own : [...own, negate(part)], counts: [...counts, false] },
      ]);
    }
    return options.map(({ parts: own, counts }) => ({ rule: rules.ruleFor(own), counts }));
  };
  const prefix = Array.from({ length }, (_, i) => optionsOf(at(i)));
  const asked = sources.some(({ rest }) => rest !== undefined);
  return new ArrayShape(prefix, optionsOf(at(length)), asked, facts);
}
