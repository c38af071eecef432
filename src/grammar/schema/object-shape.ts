/** Objects that satisfy the facts of one alternative. */
import type { Work } from '../../slices.ts';
import type { ObjectFacts, Part } from './facts.ts';
import type { Regex } from './regex.ts';
import { Unheld } from './relaxed.ts';
import type { Rule, RuleMaker } from './rule.ts';

/** Values of a property, and the witnesses among them. */
export interface Values {
  readonly rule: Rule;
  /** Rules of values that are also witnesses, by the witness's bit. */
  readonly witnesses: readonly { readonly bit: number; readonly rule: Rule }[];
}

export interface NamedValues extends Values {
  readonly name: string;
  readonly required: boolean;
  /** Names that this one requires, as indices. */
  readonly requires: readonly number[];
}

/** Names without a place in the list, by the patterns that they match. */
export interface OtherValues extends Values {
  readonly language: Regex;
  /** True if a keyword gives these properties a schema, or allows them. */
  readonly asked: boolean;
}

/** Limit of patterns of names in one object, because every combination is a class of its own. */
const MAX_PATTERNS = 7;

export class ObjectShape {
  readonly names: readonly NamedValues[];
  readonly others: readonly OtherValues[];
  readonly min: number;
  readonly max: number;
  /** The bits of all witnesses. */
  readonly witnesses: number;
  /** True if some name requires others. */
  readonly hasDependents: boolean;
  /** Indices of required names. */
  readonly #required: readonly number[];
  /** True if a keyword restricts the names. */
  readonly #restricted: boolean;

  constructor(names: readonly NamedValues[], others: readonly OtherValues[], { min, max, witnesses, names: languages }: ObjectFacts) {
    this.hasDependents = names.some(({ requires }) => requires.length > 0);
    this.#required = [...names.keys()].filter((i) => names[i].required);
    this.#restricted = languages.length > 0;
    this.names = names;
    this.others = others;
    this.min = min;
    this.max = max;
    this.witnesses = 2 ** witnesses.length - 1;
  }

  /** True if the schema says nothing about objects. */
  get isFree(): boolean {
    return (
      this.names.length === 0 &&
      this.min === 0 &&
      this.max === Infinity &&
      this.witnesses === 0 &&
      !this.#restricted &&
      this.others.length > 0 &&
      this.others.every(({ asked }) => !asked)
    );
  }

  /**
   * The names that are not listed and have values.
   * @param closed true: only those that the schema asks for
   */
  othersThat(closed: boolean): readonly OtherValues[] {
    const needed = this.names.length === 0 || this.min > this.names.length || this.others.some(({ witnesses }) => witnesses.length > 0);
    return this.others.filter(({ rule, asked }) => rule.productive && (asked || needed || !closed));
  }

  /** True if some object has this shape, as far as the rules of its values are known to have values. */
  hasValue(): boolean {
    const needed = this.needed(new Set());
    if (needed.length > this.max || needed.some((i) => !this.names[i].rule.productive)) return false;
    const possible = this.others.some(({ rule }) => rule.productive) ? Infinity : this.names.filter(({ rule }) => rule.productive).length;
    if (possible < this.min) return false;
    const all = [...this.names, ...this.others];
    for (let bit = 1; bit <= this.witnesses; bit *= 2)
      if (!all.some(({ witnesses }) => witnesses.some((witness) => witness.bit === bit && witness.rule.productive))) return false;
    return true;
  }

  /** Names that must still come after the given ones: required ones, and what both require. */
  needed(seen: ReadonlySet<number>): number[] {
    const all = new Set(this.#required);
    if (this.hasDependents) {
      for (const i of seen) for (const other of this.names[i].requires) all.add(other);
      for (const i of all) for (const other of this.names[i].requires) all.add(other);
    }
    return [...all].filter((i) => !seen.has(i));
  }
}

export function* objectShape(rules: RuleMaker, facts: ObjectFacts): Work<ObjectShape> {
  const { expander } = rules;
  const names = new Set<string>();
  for (const { properties } of facts.sources) for (const name of properties.keys()) names.add(name);
  for (const name of facts.required) names.add(name);
  for (const { name, requires } of facts.dependents) for (const one of [name, ...requires]) names.add(one);
  const order = new Map([...names].map((name, i) => [name, i]));
  const list: NamedValues[] = [];
  for (const name of names) {
    const parts = expander.partsOf(facts, name) ?? [{ schema: false, pointer: '' }];
    const found = facts.witnesses.map(({ names: language }) => expander.languages.matches(language, name));
    const requires = facts.dependents.filter((dependent) => dependent.name === name).flatMap((dependent) => dependent.requires);
    list.push({
      name,
      required: facts.required.has(name),
      requires: requires.map((other) => order.get(other)!),
      ...valuesOf(rules, facts, parts, found),
    });
    if (list.length % 64 === 0) yield;
  }
  return new ObjectShape(list, yield* otherNames(rules, facts, names), facts);
}

function valuesOf(rules: RuleMaker, { witnesses }: ObjectFacts, parts: readonly Part[], found: readonly boolean[]): Values {
  return {
    rule: rules.ruleFor(parts),
    witnesses: witnesses.flatMap(({ part }, i) => (found[i] ? [{ bit: 2 ** i, rule: rules.ruleFor([...parts, part]) }] : [])),
  };
}

/** Divides all names that are not listed by the patterns that they match. */
function* otherNames(rules: RuleMaker, facts: ObjectFacts, names: ReadonlySet<string>): Work<OtherValues[]> {
  const { languages } = rules.expander;
  if (facts.sources.some(({ patterns, others }) => patterns.length === 0 && others?.schema === false && !others.negated)) return [];
  const given = [
    ...facts.sources.flatMap(({ patterns }) => patterns.map(({ language }) => language)),
    ...facts.witnesses.map((witness) => witness.names),
  ];
  const patterns = [...new Set(given)].filter((pattern) => pattern !== languages.anything);
  if (patterns.length > MAX_PATTERNS)
    throw new Unheld(`${patterns.length} patterns of names apply to one object; expected at most ${MAX_PATTERNS}`);
  const unlisted = names.size === 0 ? languages.anything : languages.not(languages.words(names));
  let classes: { readonly language: Regex; readonly matches: ReadonlySet<Regex> }[] = [
    { language: languages.all([unlisted, ...facts.names]), matches: new Set([languages.anything]) },
  ];
  for (const pattern of patterns) {
    const divided: typeof classes = [];
    for (const { language, matches } of classes) {
      const inside = languages.all([language, pattern]);
      const outside = languages.all([language, languages.not(pattern)]);
      if (yield* languages.isLive(inside)) divided.push({ language: inside, matches: new Set([...matches, pattern]) });
      if (yield* languages.isLive(outside)) divided.push({ language: outside, matches });
    }
    classes = divided;
  }
  const others: OtherValues[] = [];
  for (const { language, matches } of classes) {
    if (!(yield* languages.isLive(language))) continue;
    const parts: Part[] = [];
    let asked = false;
    for (const source of facts.sources) {
      const matching = source.patterns.filter((pattern) => matches.has(pattern.language));
      parts.push(...matching.map(({ part }) => part));
      if (matching.length === 0 && source.others) parts.push(source.others);
      asked ||= matching.length > 0 || source.others !== undefined;
    }
    const found = facts.witnesses.map((witness) => matches.has(witness.names));
    others.push({ language, asked, ...valuesOf(rules, facts, parts, found) });
  }
  return others;
}
