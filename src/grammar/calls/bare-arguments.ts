/** Writes arguments of XML-like notations: names in tags, and values as bare text. */
import { typesOf, within, type Subschema, type ValueKind } from '../../chat/argument-types.ts';
import { RETURN } from '../program.ts';
import { KIND } from '../schema/facts.ts';
import type { Regex } from '../schema/regex.ts';
import type { ObjectForm, Rule } from '../schema/rule.ts';
import type { Alternative, Rules } from '../schema/rules.ts';
import type { ValueNodes } from '../schema/value-nodes.ts';
import type { Marks } from './marks.ts';
import type { XmlSyntax } from './notation.ts';
import { bitsOf, Readable } from './readable.ts';

/** Kinds of values with the type that an attribute names for them. */
const TYPED = [
  ['null', KIND.null],
  ['boolean', KIND.true | KIND.false],
  ['number', KIND.number],
  ['object', KIND.object],
  ['array', KIND.array],
] as const;

const OTHER_KINDS = TYPED.reduce((kinds, [, kind]) => kinds | kind, 0);
const STRING: ReadonlySet<ValueKind> = new Set(['string']);
/** A key for which the reader looks up the schema of names that are not listed. */
const UNLISTED = '\0';

export class BareArguments implements ObjectForm {
  readonly #rules: Rules;
  /** Values other than strings: JSON, or Python's literals. */
  readonly #values: ValueNodes;
  readonly #marks: Marks;
  readonly #schema: Subschema;
  readonly #syntax: XmlSyntax;
  readonly #readable: Readable;
  /** Texts that a bare string must not have inside. */
  readonly #outside: Regex;
  readonly #end: number;
  readonly #quote: string;

  constructor(rules: Rules, values: ValueNodes, marks: Marks, schema: Subschema, syntax: XmlSyntax, inner: string) {
    this.#rules = rules;
    this.#values = values;
    this.#marks = marks;
    this.#schema = schema;
    this.#syntax = syntax;
    this.#readable = new Readable(rules.expander.languages);
    this.#outside = this.#readable.without([syntax.argumentEnd, inner]);
    this.#end = marks.end((syntax.lines ? '\n' : '') + syntax.argumentEnd);
    this.#quote = syntax.argument.endsWith('"') ? '"' : '';
  }

  open(next: number): number {
    return this.#values.writer.call(this.#values.writer.blanks, next);
  }

  comma(next: number): number {
    return next;
  }

  close(next: number): number {
    return next;
  }

  before(next: number): number {
    return this.#marks.text(this.#syntax.argument, next);
  }

  spell(name: string): readonly string[] {
    return /^[^<>"\s](?:[^<>"\n\r]*[^<>"\s])?$/.test(name) ? [name] : [];
  }

  others(language: Regex): number {
    const { languages } = this.#rules.expander;
    // Letters, digits and what joins them.
    const name = languages.repeat(languages.chars([0x2d, 0x2e, 0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a]), 1, 64);
    return this.#values.writer.bare(languages.all([language, name]), RETURN);
  }

  colon(next: number): number {
    return next;
  }

  value(rule: Rule, name = UNLISTED): number {
    const { writer } = this.#values;
    const { kinds } = typesOf(within(this.#schema, name));
    return writer.lazy(() => writer.split(this.#rules.alternativesOf(rule).flatMap((one) => this.#alternative(one, kinds))));
  }

  #alternative(alternative: Alternative, read: ReadonlySet<ValueKind>): number[] {
    const { writer } = this.#values;
    const allowed = this.#values.kindsOf(alternative) & bitsOf(read);
    const nodes: number[] = [];
    if (allowed & KIND.string)
      nodes.push(this.#head('string', this.#string(alternative.string, this.#syntax.attribute === undefined ? read : STRING)));
    const groups = this.#syntax.attribute === 'type' ? TYPED : ([['object', OTHER_KINDS]] as const);
    for (const [type, kinds] of groups) {
      const texts = this.#values.alternative(alternative, allowed & kinds);
      if (texts.length > 0) nodes.push(this.#head(type, this.#line(writer.call(writer.split(texts), this.#end))));
    }
    return nodes;
  }

  /** Text between a name and a value of a type. */
  #head(type: ValueKind, next: number): number {
    const { attribute, keyed, value } = this.#syntax;
    const word = attribute === 'string' ? type === 'string' : type;
    const key = `${this.#quote}${attribute === undefined ? '' : ` ${attribute}="${word}"`}${keyed}`;
    const tag = value === undefined ? next : this.#values.writer.call(this.#values.writer.blanks, this.#marks.text(value, next));
    return this.#marks.text(key, tag);
  }

  #line(next: number): number {
    return this.#syntax.lines ? this.#values.writer.text('\n', next) : next;
  }

  #string(language: Regex, read: ReadonlySet<ValueKind>): number {
    const { languages } = this.#rules.expander;
    const { writer } = this.#values;
    const { trimLines, lines, cdata } = this.#syntax;
    const asked = [language, this.#readable.strings(read), ...(trimLines && !lines ? [this.#readable.notBegun('\n')] : [])];
    const bare = writer.bare(languages.all([...asked, this.#outside, ...(cdata ? [this.#readable.without(['<'])] : [])]), this.#end);
    if (!cdata) return this.#line(bare);
    const section = writer.bare(
      languages.all([...asked, this.#readable.without([']]>'])]),
      this.#marks.end(`]]>${this.#syntax.argumentEnd}`),
    );
    return writer.split([bare, this.#marks.text('<![CDATA[', section)]);
  }
}
