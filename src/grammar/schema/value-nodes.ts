/** Writes the values of rules as nodes of an automaton. */
import { RETURN, type Node } from '../program.ts';
import { writeArray } from './array-nodes.ts';
import { ALL_KINDS, KIND } from './facts.ts';
import { NodeWriter } from './node-writer.ts';
import { ObjectNodes } from './object-nodes.ts';
import type { ObjectShape } from './object-shape.ts';
import type { Regex } from './regex.ts';
import type { ArrayForm, ObjectForm, Rule, Style, ValueWriter } from './rule.ts';
import type { Alternative, Rules } from './rules.ts';

/** Values as JSON. Other notations of values override what they write differently. */
export class ValueNodes implements ValueWriter {
  readonly writer: NodeWriter;
  readonly style: Style;
  protected readonly rules: Rules;
  /** A language that all strings belong to, besides their own. */
  strings: Regex | undefined;
  readonly #nodes = new Map<Rule, number>();
  readonly #none: Regex;

  /** @param nodes the nodes of a program that these values become part of */
  constructor(rules: Rules, style: Style, nodes?: Node[]) {
    const { languages } = rules.expander;
    this.rules = rules;
    this.writer = new NodeWriter(languages, style.brief, nodes);
    this.#none = languages.none;
    this.style = style;
  }

  /** The first node of a rule's values. */
  value(rule: Rule): number {
    let node = this.#nodes.get(rule);
    if (node === undefined) {
      const alternatives = this.rules.alternativesOf(rule);
      node = this.writer.lazy(() => this.writer.split(alternatives.flatMap((alternative) => this.alternative(alternative))));
      this.#nodes.set(rule, node);
    }
    return node;
  }

  /** The first nodes of one alternative's values, of these kinds alone. */
  alternative(alternative: Alternative, kinds = ALL_KINDS): number[] {
    const { string, numbers, object, array } = alternative;
    const allowed = kinds & this.kindsOf(alternative);
    const starts: number[] = [];
    for (const [kind, texts] of this.literals()) if (allowed & kind) starts.push(...texts.map((text) => this.writer.text(text, RETURN)));
    if (allowed & KIND.number && numbers) starts.push(this.writer.raw(this.rules.expander.numbers.of(numbers)));
    if (allowed & KIND.string && string !== this.#none) starts.push(this.string(string));
    if (allowed & KIND.object && object?.hasValue()) starts.push(this.object(object));
    if (allowed & KIND.array && array?.hasValue()) starts.push(writeArray(this, array, this.arrayForm()));
    return starts;
  }

  /** The kinds of values of an alternative that are written. */
  kindsOf(alternative: Alternative): number {
    return this.style.closed ? this.rules.writtenKinds(alternative) : alternative.kinds;
  }

  protected literals(): readonly (readonly [kind: number, texts: readonly string[]])[] {
    return LITERALS;
  }

  protected string(language: Regex): number {
    return this.writer.string(this.strings ? this.rules.expander.languages.all([language, this.strings]) : language);
  }

  /** The first node of an object. */
  object(shape: ObjectShape, form: ObjectForm = this.objectForm()): number {
    return new ObjectNodes(this, shape, form).start;
  }

  objectForm(): ObjectForm {
    const { writer } = this;
    return {
      ...this.brackets('{', '}'),
      before: (next) => next,
      spell: (name) => [JSON.stringify(name)],
      others: (language) => this.string(language),
      colon: (next) => writer.call(writer.blanks, writer.text(':', writer.call(writer.blanks, next))),
      value: (rule) => this.value(rule),
    };
  }

  protected arrayForm(): ArrayForm {
    return { ...this.brackets('[', ']'), item: (rule) => this.value(rule), listed: (json) => json };
  }

  /** Brackets around parts with commas between them. */
  protected brackets(open: string, close: string): Pick<ArrayForm, 'open' | 'comma' | 'close'> {
    const { writer } = this;
    const spaced = (text: string, next: number): number => writer.text(text, writer.call(writer.blanks, next));
    return { open: (next) => spaced(open, next), comma: (next) => spaced(',', next), close: (next) => writer.text(close, next) };
  }
}

const LITERALS = [
  [KIND.null, ['null']],
  [KIND.true, ['true']],
  [KIND.false, ['false']],
] as const;
