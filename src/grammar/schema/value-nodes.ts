/** Writes the values of rules as nodes of an automaton. */
import { RETURN } from '../program.ts';
import { writeArray } from './array-nodes.ts';
import { ALL_KINDS, KIND } from './facts.ts';
import { ANY_NUMBER } from './numbers.ts';
import { NodeWriter } from './node-writer.ts';
import { ObjectNodes } from './object-nodes.ts';
import type { Regex } from './regex.ts';
import type { Rule, Style, ValueWriter } from './rule.ts';
import type { Alternative, Rules } from './rules.ts';

export class ValueNodes implements ValueWriter {
  readonly writer: NodeWriter;
  readonly style: Style;
  readonly #rules: Rules;
  readonly #none: Regex;
  /** Languages that ask for nothing, or for nothing at all. */
  readonly #silent: ReadonlySet<Regex>;

  constructor(rules: Rules, style: Style) {
    const { languages, numbers } = rules.expander;
    this.#rules = rules;
    this.writer = new NodeWriter(languages, style.brief);
    this.#none = languages.none;
    this.#silent = new Set([languages.none, languages.anything, numbers.of(ANY_NUMBER)]);
    this.style = style;
  }

  /** The first node of a rule's values. */
  value(rule: Rule): number {
    return (rule.node ??= this.writer.lazy(() =>
      this.writer.split(this.#rules.alternativesOf(rule).flatMap((alternative) => this.#alternative(alternative))),
    ));
  }

  #alternative(alternative: Alternative): number[] {
    const { kinds, typed, string, number, object, array } = alternative;
    const { writer } = this;
    const starts: number[] = [];
    const allowed = this.style.closed && !typed ? this.#spokenOf(alternative) : kinds;
    for (const [kind, text] of LITERALS) if (allowed & kind) starts.push(writer.text(text, RETURN));
    if (allowed & KIND.number && number !== this.#none) starts.push(writer.raw(number));
    if (allowed & KIND.string && string !== this.#none) starts.push(writer.string(string));
    if (allowed & KIND.object && object?.hasValue()) starts.push(new ObjectNodes(this, object).start);
    if (allowed & KIND.array && array?.hasValue()) starts.push(writeArray(this, array));
    return starts;
  }

  /** Kinds of values that the keywords of an untyped schema speak of; all, if they speak of none. */
  #spokenOf({ kinds, string, number, object, array }: Alternative): number {
    let spoken = 0;
    if (!this.#silent.has(string)) spoken |= KIND.string;
    if (!this.#silent.has(number)) spoken |= KIND.number;
    if (object && !object.isFree) spoken |= KIND.object;
    if (array && !array.isFree) spoken |= KIND.array;
    return spoken === 0 || kinds !== ALL_KINDS ? kinds : spoken;
  }
}

const LITERALS = [
  [KIND.null, 'null'],
  [KIND.true, 'true'],
  [KIND.false, 'false'],
] as const;
