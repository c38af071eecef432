/** Writes arguments as elements of their own names, at every level (MiniMax M3). */
import { typesOf, within, type Subschema, type ValueKind } from '../../chat/argument-types.ts';
import { writeArray } from '../schema/array-nodes.ts';
import { KIND } from '../schema/facts.ts';
import { ObjectNodes } from '../schema/object-nodes.ts';
import type { Regex } from '../schema/regex.ts';
import type { ArrayForm, ObjectForm, Rule } from '../schema/rule.ts';
import type { Alternative, Rules } from '../schema/rules.ts';
import type { ValueNodes } from '../schema/value-nodes.ts';
import type { Marks } from './marks.ts';
import { bitsOf, Readable } from './readable.ts';

/** The kinds that are written without elements inside, other than strings. */
const PLAIN = KIND.null | KIND.true | KIND.false | KIND.number;
const ITEM = 'item';

export class ElementArguments {
  readonly #rules: Rules;
  readonly #values: ValueNodes;
  readonly #marks: Marks;
  readonly #mark: string;
  readonly #readable: Readable;
  readonly #outside: Regex;

  constructor(rules: Rules, values: ValueNodes, marks: Marks, mark: string) {
    this.#rules = rules;
    this.#values = values;
    this.#marks = marks;
    this.#mark = mark;
    this.#readable = new Readable(rules.expander.languages);
    this.#outside = this.#readable.without([mark]);
  }

  /**
   * Members as elements. Names that the schema does not list cannot be written: the end tag would
   * have to repeat them.
   */
  objectForm(schema: Subschema, kinds: ReadonlySet<ValueKind>): ObjectForm {
    return {
      // Without elements, a text would be read.
      nonEmpty: kinds.has('string'),
      ...this.#around(),
      before: (next) => this.#marks.text(`${this.#mark}<`, next),
      spell: (name) => (/^[^<>"/\s]+$/.test(name) && !(name === ITEM && kinds.has('array')) ? [name] : []),
      others: () => undefined,
      colon: (next) => this.#values.writer.text('>', next),
      value: (rule, name) => this.#element(rule, within(schema, name!), name!),
    };
  }

  #arrayForm(schema: Subschema, kinds: ReadonlySet<ValueKind>): ArrayForm {
    const [begin, end] = [`${this.#mark}<${ITEM}>`, `${this.#mark}</${ITEM}>`];
    return {
      // Without elements, an object or a text would be read.
      nonEmpty: kinds.has('string') || kinds.has('object'),
      ...this.#around(),
      item: (rule, index) => this.#marks.text(begin, this.#element(rule, within(schema, index), ITEM)),
      listed: (json) => `${begin}${json.startsWith('"') ? (JSON.parse(json) as string) : json}${end}`,
    };
  }

  #around(): Pick<ArrayForm, 'open' | 'comma' | 'close'> {
    const same = (next: number): number => next;
    return { open: same, comma: same, close: same };
  }

  /** The content of an element, and its end. */
  #element(rule: Rule, schema: Subschema, tag: string): number {
    const { writer } = this.#values;
    const { kinds } = typesOf(schema);
    const end = this.#marks.end(`${this.#mark}</${tag}>`);
    return writer.lazy(() => writer.split(this.#rules.alternativesOf(rule).flatMap((one) => this.#content(one, schema, kinds, end))));
  }

  #content(alternative: Alternative, schema: Subschema, kinds: ReadonlySet<ValueKind>, end: number): number[] {
    const { writer } = this.#values;
    const { string, object, array } = alternative;
    const allowed = this.#values.kindsOf(alternative) & bitsOf(kinds);
    const starts = this.#values.alternative(alternative, allowed & PLAIN);
    if (allowed & KIND.object && object?.hasValue())
      starts.push(new ObjectNodes(this.#values, object, this.objectForm(schema, kinds)).start);
    if (allowed & KIND.array && array?.hasValue()) starts.push(writeArray(this.#values, array, this.#arrayForm(schema, kinds)));
    const nodes = starts.map((start) => writer.call(start, end));
    if (allowed & KIND.string) {
      const { languages } = this.#rules.expander;
      nodes.push(writer.bare(languages.all([string, this.#readable.strings(kinds), this.#outside]), end));
    }
    return nodes;
  }
}
