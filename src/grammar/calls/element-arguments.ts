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
  /** Rules whose values are being looked at. */
  readonly #open = new Set<Rule>();

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
      spell: (name, rule) => (this.#isTag(name, kinds) && this.#canWrite(rule, within(schema, name)) ? [name] : []),
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
      canWrite: (rule, index) => this.#canWrite(rule, within(schema, index)),
      item: (rule, index) => this.#marks.text(begin, this.#element(rule, within(schema, index), ITEM)),
      listed: (json) => `${begin}${json.startsWith('"') ? (JSON.parse(json) as string) : json}${end}`,
    };
  }

  #around(): Pick<ArrayForm, 'open' | 'comma' | 'close'> {
    const same = (next: number): number => next;
    return { open: same, comma: same, close: same };
  }

  #isTag(name: string, kinds: ReadonlySet<ValueKind>): boolean {
    return /^[^<>"/\s]+$/.test(name) && !(name === ITEM && kinds.has('array'));
  }

  /** True if some value of a rule can be written. A value inside a value of the same rule counts as none. */
  #canWrite(rule: Rule, schema: Subschema): boolean {
    if (this.#open.has(rule)) return false;
    this.#open.add(rule);
    const { kinds } = typesOf(schema);
    const can = this.#rules.alternativesOf(rule).some((alternative) => this.#canWriteOne(alternative, schema, kinds));
    this.#open.delete(rule);
    return can;
  }

  #canWriteOne(alternative: Alternative, schema: Subschema, kinds: ReadonlySet<ValueKind>): boolean {
    const { numbers, object, array } = alternative;
    const allowed = this.#values.kindsOf(alternative) & bitsOf(kinds);
    if (allowed & (PLAIN & ~KIND.number) || (allowed & KIND.number && numbers)) return true;
    if (allowed & KIND.string && this.#stringsOf(alternative, kinds) !== this.#rules.expander.languages.none) return true;
    if (allowed & KIND.object && object?.hasValue()) {
      const fits = (i: number): boolean => {
        const { name, rule } = object.names[i];
        return this.#isTag(name, kinds) && this.#canWrite(rule, within(schema, name));
      };
      const needed = object.needed(new Set());
      const rest = kinds.has('string') && needed.length === 0 ? object.names.some((_, i) => fits(i)) : true;
      if (rest && needed.every(fits)) return true;
    }
    if (!(allowed & KIND.array && array?.hasValue())) return false;
    const least = Math.max(array.min, kinds.has('string') || kinds.has('object') ? 1 : 0);
    const fits = (i: number): boolean => array.at(i).some(({ rule }) => rule.productive && this.#canWrite(rule, within(schema, i)));
    return array.texts !== undefined || Array.from({ length: Math.min(least, array.prefix.length + 1) }, (_, i) => i).every(fits);
  }

  /** Bare texts that are read as strings of an alternative. */
  #stringsOf({ string }: Alternative, kinds: ReadonlySet<ValueKind>): Regex {
    return this.#rules.expander.languages.all([string, this.#readable.strings(kinds), this.#outside]);
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
    const { object, array } = alternative;
    const allowed = this.#values.kindsOf(alternative) & bitsOf(kinds);
    const starts = this.#values.alternative(alternative, allowed & PLAIN);
    if (allowed & KIND.object && object?.hasValue())
      starts.push(new ObjectNodes(this.#values, object, this.objectForm(schema, kinds)).start);
    if (allowed & KIND.array && array?.hasValue()) starts.push(writeArray(this.#values, array, this.#arrayForm(schema, kinds)));
    const nodes = starts.map((start) => writer.call(start, end));
    if (allowed & KIND.string) nodes.push(writer.bare(this.#stringsOf(alternative, kinds), end));
    return nodes;
  }
}
