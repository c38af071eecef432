/** Writes the values of rules as nodes of an automaton. */
import { RETURN } from '../program.ts';
import { writeArray } from './array-nodes.ts';
import { KIND } from './facts.ts';
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

  constructor(rules: Rules, style: Style) {
    const { languages } = rules.expander;
    this.#rules = rules;
    this.writer = new NodeWriter(languages, style.brief);
    this.#none = languages.none;
    this.style = style;
  }

  /** The first node of a rule's values. */
  value(rule: Rule): number {
    return (rule.node ??= this.writer.lazy(() =>
      this.writer.split(this.#rules.alternativesOf(rule).flatMap((alternative) => this.#alternative(alternative))),
    ));
  }

  #alternative(alternative: Alternative): number[] {
    const { string, number, object, array } = alternative;
    const { writer } = this;
    const starts: number[] = [];
    const kinds = this.style.closed ? this.#rules.writtenKinds(alternative) : alternative.kinds;
    for (const [kind, text] of LITERALS) if (kinds & kind) starts.push(writer.text(text, RETURN));
    if (kinds & KIND.number && number !== this.#none) starts.push(writer.raw(number));
    if (kinds & KIND.string && string !== this.#none) starts.push(writer.string(string));
    if (kinds & KIND.object && object?.hasValue()) starts.push(new ObjectNodes(this, object).start);
    if (kinds & KIND.array && array?.hasValue()) starts.push(writeArray(this, array));
    return starts;
  }
}

const LITERALS = [
  [KIND.null, 'null'],
  [KIND.true, 'true'],
  [KIND.false, 'false'],
] as const;
