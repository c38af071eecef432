/** Grammars of tool calls, in the notation of a model's family. */
import { QuantletError } from '../../errors.ts';
import { atOnce, type Work } from '../../slices.ts';
import { grammarOf, type Grammar, type GrammarVocabulary } from '../grammar.ts';
import { RETURN, type Node } from '../program.ts';
import { NO_VALUE, schemaError } from '../schema-error.ts';
import { WRITTEN } from '../schema-grammar.ts';
import { rulesOfSchema } from '../schema/compile-schema.ts';
import { KIND } from '../schema/facts.ts';
import { NodeWriter } from '../schema/node-writer.ts';
import type { ObjectShape } from '../schema/object-shape.ts';
import { Languages } from '../schema/regex.ts';
import type { Relaxation, StrictPart } from '../schema/relaxed.ts';
import type { ObjectForm, Rule } from '../schema/rule.ts';
import type { Rules } from '../schema/rules.ts';
import { ValueNodes } from '../schema/value-nodes.ts';
import type { JsonSchema } from '../schema.ts';
import { BareArguments } from './bare-arguments.ts';
import { ElementArguments } from './element-arguments.ts';
import { PythonValues, QuotedValues } from './literal-values.ts';
import { Marks } from './marks.ts';
import { Readable } from './readable.ts';
import { LINES, type ArgumentForm, type CallsFormat } from './notation.ts';

type Tool = CallsFormat['tools'][number];
type Notation = CallsFormat['notations'][number];

/** A tool, and the rules of its schema. */
interface CompiledTool extends Tool {
  readonly rules: Rules;
  readonly root: Rule;
}

/** Gemma's templates sort the arguments, so models may write them in that order. */
const UNORDERED = { ...WRITTEN, ordered: false } as const;

const ANY = { type: 'object' };

const calledTool = (name: string): string => `the tool ${JSON.stringify(name)}`;

/**
 * Makes the grammar of calls. If a schema cannot be compiled, the tool's arguments may be any object,
 * and `relaxed` says so.
 * @throws QuantletError ERR_GRAMMAR naming tool, path and keyword, if the tool is strict or must be
 * called
 */
export function* callsGrammarWork(format: CallsFormat, vocabulary: GrammarVocabulary): Work<Grammar> {
  const writer = new NodeWriter(new Languages(), true);
  const relaxed: Relaxation[] = [];
  const tools: CompiledTool[] = [];
  const must = format.tools.length === 1 && !format.section && format.answer === undefined;
  for (const tool of format.tools) tools.push(yield* compiledTool(tool, must, relaxed));
  const calls = new CallNodes(writer, vocabulary, tools, relaxed);
  const start = format.section
    ? writer.split(format.notations.map((notation) => calls.section(notation, format.several, RETURN)))
    : calls.answer(format);
  if (format.answer === undefined) return grammarOf({ nodes: writer.nodes, start }, vocabulary, relaxed);
  const { answer } = format;
  const schema = answer.type === 'json_schema' ? (answer.schema as JsonSchema) : (ANY as JsonSchema);
  const strict = answer.type === 'json_schema' ? (answer.strict ?? []) : [];
  const { rules, root } = yield* rulesOfSchema(schema, { strict, wellFormed: true });
  relaxed.push(...rules.relaxations.list);
  const targets = [start, ...(root.productive ? [new ValueNodes(rules, WRITTEN, writer.nodes).value(root)] : [])];
  return grammarOf({ nodes: writer.nodes, start: writer.split(targets) }, vocabulary, relaxed);
}

/** Rules of a tool's schema that some object satisfies. */
function* compiledTool({ name, schema, strict }: Tool, must: boolean, relaxed: Relaxation[]): Work<CompiledTool> {
  const called = calledTool(name);
  const parts: StrictPart[] = strict ? [{ pointer: '', name: called }] : [];
  try {
    const { rules, root } = yield* rulesOfSchema(schema as JsonSchema, { strict: parts, wellFormed: must });
    if (objectsOf(rules, root).length === 0) throw schemaError('', `${NO_VALUE} and is an object`);
    relaxed.push(...rules.relaxations.list.map((one) => ({ tool: name, ...one })));
    return { name, schema, strict, rules, root };
  } catch (error) {
    if (!(error instanceof QuantletError)) throw error;
    if (must || strict) throw error.message.startsWith(called) ? error : new QuantletError(error.code, `${called}, ${error.message}`);
    relaxed.push({ tool: name, pointer: '', keyword: '' });
    return { name, strict, schema: ANY, ...(yield* rulesOfSchema(ANY, { strict: [], wellFormed: false })) };
  }
}

/** The objects among a rule's values. */
const objectsOf = (rules: Rules, root: Rule): ObjectShape[] =>
  rules.alternativesOf(root).flatMap(({ kinds, object }) => (kinds & KIND.object && object?.hasValue() ? [object] : []));

/** Writes calls as nodes of one program. */
class CallNodes {
  readonly #writer: NodeWriter;
  readonly #vocabulary: GrammarVocabulary;
  readonly #marks: Marks;
  readonly #tools: readonly CompiledTool[];
  readonly #relaxations: Relaxation[];

  constructor(writer: NodeWriter, vocabulary: GrammarVocabulary, tools: readonly CompiledTool[], relaxations: Relaxation[]) {
    this.#relaxations = relaxations;
    this.#writer = writer;
    this.#vocabulary = vocabulary;
    this.#tools = tools;
    this.#marks = new Marks(vocabulary, writer);
  }

  /** An answer that is calls, with the texts around them. */
  answer({ notations, several }: CallsFormat): number {
    const starts = notations.map((notation) => {
      const { before = [], after = [], again = [], between } = notation;
      const end = this.#marks.write(after, RETURN);
      const targets = [end];
      const next = several && between === undefined ? this.#writer.split(targets, true) : end;
      const first = this.section(notation, several, next);
      if (next !== end) targets.push(this.#marks.write(again, first));
      // The prompt ends with the start that is left out.
      return this.#marks.write([...(notation.start === '' ? [] : [LINES]), ...before], first);
    });
    return this.#writer.split(starts);
  }

  /** A section of calls, from its start to its end. */
  section(notation: Notation, several: boolean, next: number): number {
    const { start, open, between, close, tail, heads, form } = notation;
    const targets = [this.#marks.write(close, next)];
    const after = this.#writer.split(targets, true);
    const calls = this.#writer.split(heads.map((head, i) => this.#call(head, this.#arguments(this.#tools[i], form), tail, after)));
    if (several && between !== undefined) targets.push(this.#marks.write(between, calls));
    return this.#marks.write([start, ...open], calls);
  }

  #call(head: Notation['open'], args: number, tail: Notation['tail'], next: number): number {
    return this.#marks.write(head, this.#writer.call(args, this.#marks.write(tail, next)));
  }

  /** The rule for a tool's arguments. */
  #arguments(tool: CompiledTool, form: ArgumentForm): number {
    const { rules, root } = tool;
    const { values, object = values.objectForm() } = this.#form(tool, form);
    const writable = objectsOf(rules, root).filter(({ names }) =>
      names.every(({ name, required, rule }) => !required || object.spell(name, rule).length > 0),
    );
    if (writable.length === 0 && tool.schema !== ANY) return this.#arguments(this.#relaxed(tool), form);
    return this.#writer.split(writable.map((shape) => values.object(shape, object)));
  }

  /** The tool with any arguments, because a name that its schema requires cannot be written. */
  #relaxed({ name, strict }: CompiledTool): CompiledTool {
    const why = "a required property has a name that the model's notation cannot write; expected letters and digits";
    if (strict) throw schemaError('/required', why, calledTool(name));
    this.#relaxations.push({ tool: name, pointer: '', keyword: 'required' });
    return { name, strict, schema: ANY, ...atOnce(rulesOfSchema(ANY, { strict: [], wellFormed: false })) };
  }

  #form({ rules, schema }: CompiledTool, form: ArgumentForm): { readonly values: ValueNodes; readonly object?: ObjectForm } {
    const nodes: Node[] = this.#writer.nodes;
    const root = { schema, root: schema };
    const marksOf = ({ writer }: ValueNodes): Marks => new Marks(this.#vocabulary, writer);
    switch (form.type) {
      case 'json':
        return { values: new ValueNodes(rules, WRITTEN, nodes) };
      case 'python': {
        const values = new PythonValues(rules, WRITTEN, nodes);
        return { values, object: values.keywords() };
      }
      case 'quoted':
        return { values: new QuotedValues(rules, UNORDERED, nodes, marksOf(new ValueNodes(rules, UNORDERED, nodes)), form.quote) };
      case 'xml': {
        const values = form.syntax.python ? new PythonValues(rules, WRITTEN, nodes) : new ValueNodes(rules, WRITTEN, nodes);
        // Marks of the notation inside a string would end the argument.
        values.strings = new Readable(rules.expander.languages).without([form.syntax.argumentEnd, form.inner]);
        return { values, object: new BareArguments(rules, values, marksOf(values), root, form.syntax, form.inner) };
      }
      case 'elements': {
        const values = new PythonValues(rules, WRITTEN, nodes);
        return { values, object: new ElementArguments(rules, values, marksOf(values), form.mark).objectForm(root, new Set(['object'])) };
      }
    }
  }
}
