/** Writes objects as GBNF: a state for each listed name, and for what limits need of those before. */
import type { Work } from '../../slices.ts';
import { gbnfChoice, gbnfRepeat, gbnfSequence, gbnfText } from '../gbnf-text.ts';
import type { NamedValues, ObjectShape, Values } from './object-shape.ts';
import type { Rule } from './rule.ts';
import type { RuleBook } from './rule-book.ts';
import { writeStates, type Step } from './state-rules.ts';

/** Writes the parts of objects and arrays. */
export interface PartWriter {
  readonly book: RuleBook;
  /** The name of a rule that has values. */
  refer(rule: Rule): string;
}

/** Properties so far, in the order of the schema. Equal ones are one object. */
interface Members {
  /** The next listed name. */
  readonly at: number;
  readonly empty: boolean;
  /** Number of properties, as far as limits need it. */
  readonly count: number;
  /** Names that require others or that others require, a bit each. */
  readonly names: bigint;
  /** Witnesses found, a bit each. */
  readonly witnesses: number;
}

/** @param others names that are not listed, as GBNF of their keys */
export function* writeObject(
  parts: PartWriter,
  hint: string,
  shape: ObjectShape,
  others: readonly (Values & { readonly key: string })[],
): Work<string | undefined> {
  const { book } = parts;
  const ws = book.share('ws');
  const { names, min, max } = shape;
  const most = max === Infinity ? min : max;
  const requiredBy = names.map(() => 0n);
  for (const [i, { requires }] of names.entries()) for (const other of requires) requiredBy[other] |= 1n << BigInt(i);
  const matters = names.map(({ requires }, i) => requires.length > 0 || requiredBy[i] !== 0n);
  const known = new Map<string, Members>();
  const stateOf = (members: Members): Members => {
    const key = Object.values(members).join();
    let state = known.get(key);
    if (!state) known.set(key, (state = members));
    return state;
  };
  const property = (name: string, key: string, rule: Rule): string => book.rule(name, gbnfSequence(key, ws, '":"', ws, parts.refer(rule)));
  const separated = (text: string, { empty }: Members): string => (empty ? text : gbnfSequence(ws, '","', ws, text));

  /** The ways to write one property, each with the witnesses that it adds. */
  function waysOf({ rule, witnesses }: Values, from: Members): [rule: Rule, found: number][] {
    const more = witnesses.filter(({ bit, rule: witness }) => witness.productive && !(from.witnesses & bit));
    return rule.productive ? [[rule, 0], ...more.map(({ bit, rule: witness }): [Rule, number] => [witness, bit])] : [];
  }

  function listed(from: Members, value: NamedValues): Step<Members>[] {
    const { at } = from;
    const bit = 1n << BigInt(at);
    const has = (i: number): boolean => (from.names & (1n << BigInt(i))) !== 0n;
    const steps: Step<Members>[] = [];
    if (from.count < max && value.requires.every((other) => other >= at || has(other))) {
      for (const [rule, found] of waysOf(value, from)) {
        const entry = property(`${value.name}-entry`, gbnfText(JSON.stringify(value.name)), rule);
        const to = stateOf({
          at: at + 1,
          empty: false,
          count: Math.min(from.count + 1, most),
          names: matters[at] ? from.names | bit : from.names,
          witnesses: from.witnesses | found,
        });
        steps.push({ text: separated(entry, from), to });
      }
    }
    if (!value.required && (from.names & requiredBy[at]) === 0n) steps.push({ text: '', to: stateOf({ ...from, at: at + 1 }) });
    return steps;
  }

  /** The properties after the listed ones, and the end. */
  function after(from: Members): Step<Members>[] {
    const { empty, count } = from;
    if (shape.witnesses === 0) {
      const other = gbnfChoice(others.map(({ key, rule }) => property('other', key, rule)));
      const least = Math.max(0, min - count);
      const limit = other === '' ? 0 : max - count;
      if (least > limit) return [];
      const next = (from: number, to: number): string => gbnfRepeat(gbnfSequence(ws, '","', ws, other), Math.max(0, from), to);
      if (!empty) return [{ text: gbnfSequence(next(least, limit), ws), to: undefined }];
      const steps: Step<Members>[] = limit > 0 ? [{ text: gbnfSequence(other, next(least - 1, limit - 1), ws), to: undefined }] : [];
      return least === 0 ? [...steps, { text: '', to: undefined }] : steps;
    }
    const steps: Step<Members>[] = [];
    if (count >= min && from.witnesses === shape.witnesses) steps.push({ text: empty ? '' : ws, to: undefined });
    if (count < max)
      for (const other of others)
        for (const [rule, found] of waysOf(other, from)) {
          const to = stateOf({ ...from, empty: false, count: Math.min(count + 1, most), witnesses: from.witnesses | found });
          steps.push({ text: separated(property('other', other.key, rule), from), to });
        }
    return steps;
  }

  const start = stateOf({ at: 0, empty: true, count: 0, names: 0n, witnesses: 0 });
  const stepsOf = (state: Members): Step<Members>[] => (state.at < names.length ? listed(state, names[state.at]) : after(state));
  const members = yield* writeStates(book, hint, start, stepsOf);
  return members === undefined ? undefined : gbnfSequence('"{"', ws, members, '"}"');
}
