/** Values as literals that differ from JSON: Python's, and JSON with a text of its own as the quote. */
import { RETURN, type Node } from '../program.ts';
import { MAX_CODE_POINT } from '../ranges.ts';
import type { Regex } from '../schema/regex.ts';
import { KIND } from '../schema/facts.ts';
import type { ArrayForm, ObjectForm, Style } from '../schema/rule.ts';
import type { Rules } from '../schema/rules.ts';
import { ValueNodes } from '../schema/value-nodes.ts';
import type { Marks } from './marks.ts';
import { Readable } from './readable.ts';

/** Python's words and JSON's: templates write the first, and schemas speak of the second. */
const PYTHON = [
  [KIND.null, ['None', 'null']],
  [KIND.true, ['True', 'true']],
  [KIND.false, ['False', 'false']],
] as const;

/**
 * Literals of Python. Strings are in double quotes, with JSON's escapes, or in single quotes, without
 * what would have to be escaped there.
 */
export class PythonValues extends ValueNodes {
  readonly #single: Regex;

  constructor(rules: Rules, style: Style, nodes: Node[]) {
    super(rules, style, nodes);
    const { languages } = rules.expander;
    this.#single = languages.repeat(languages.chars([0x20, 0x26, 0x28, 0x5b, 0x5d, 0xd7ff, 0xe000, MAX_CODE_POINT]), 0, Infinity);
  }

  protected override literals(): typeof PYTHON {
    return PYTHON;
  }

  protected override string(language: Regex): number {
    const { writer } = this;
    const single = writer.bare(
      this.rules.expander.languages.all([language, this.#single, ...(this.strings ? [this.strings] : [])]),
      writer.text("'", RETURN),
    );
    return writer.split([super.string(language), writer.text("'", single)]);
  }

  override objectForm(): ObjectForm {
    return {
      ...super.objectForm(),
      spell: (name) => [JSON.stringify(name), ...(/^[ -&(-[\]-~]*$/.test(name) ? [`'${name}'`] : [])],
    };
  }

  /** `key=value`, with commas between them. */
  keywords(): ObjectForm {
    const { writer } = this;
    const { languages } = this.rules.expander;
    const first = languages.chars([0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a]);
    const name = languages.sequence(first, languages.repeat(languages.chars([0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a]), 0, 64));
    return {
      ...this.brackets('', ''),
      before: (next) => next,
      spell: (key) => (/^[A-Za-z_][\w.-]*$/.test(key) ? [key] : []),
      others: (language) => writer.bare(languages.all([language, name]), RETURN),
      colon: (next) => writer.text('=', next),
      value: (rule) => this.value(rule),
    };
  }
}

/** JSON with bare keys, and strings without escapes between marks (Gemma 4). */
export class QuotedValues extends ValueNodes {
  readonly #marks: Marks;
  readonly #quote: string;
  readonly #inside: Regex;

  constructor(rules: Rules, style: Style, nodes: Node[], marks: Marks, quote: string) {
    super(rules, style, nodes);
    this.#marks = marks;
    this.#quote = quote;
    this.#inside = new Readable(rules.expander.languages).without([quote]);
  }

  protected override string(language: Regex): number {
    const inside = this.writer.bare(this.rules.expander.languages.all([language, this.#inside]), this.#marks.end(this.#quote));
    return this.#marks.text(this.#quote, inside);
  }

  override objectForm(): ObjectForm {
    const { writer } = this;
    return {
      ...this.brackets('{', '}'),
      before: (next) => next,
      spell: (name) => (/^[\w.$@-]+$/.test(name) ? [name] : name.includes(this.#quote) ? [] : [`${this.#quote}${name}${this.#quote}`]),
      others: (language) => this.string(language),
      colon: (next) => writer.text(':', next),
      value: (rule) => this.value(rule),
    };
  }

  protected override arrayForm(): ArrayForm {
    const quoted = (json: string): string => `${this.#quote}${JSON.parse(json) as string}${this.#quote}`;
    return { ...super.arrayForm(), listed: (json) => (json.startsWith('"') ? quoted(json) : json) };
  }
}
