/** Compiles a JSON schema to an automaton over bytes, or to GBNF. */
import type { Work } from '../../slices.ts';
import { withWrittenNumbers } from '../exact-number.ts';
import { RETURN, type Program } from '../program.ts';
import { NO_VALUE, schemaError } from '../schema-error.ts';
import { refuseLarge } from '../schema-size.ts';
import { shown, type JsonSchema } from '../schema.ts';
import type { Relaxation, Strictness } from './relaxed.ts';
import { Rules } from './rules.ts';
import { ValueGbnf } from './value-gbnf.ts';
import { ValueNodes } from './value-nodes.ts';
import type { Rule, Style } from './rule.ts';
import { TooManyStates } from './regex.ts';

export interface CompiledSchema {
  readonly program: Program;
  /** Keywords that are held only in part. */
  readonly relaxed: readonly Relaxation[];
  /** False if no value satisfies the schema. */
  readonly satisfiable: boolean;
}

/**
 * Compiles a schema to an automaton.
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword
 */
export function* compileSchemaWork(schema: JsonSchema, style: Style, strictness: Strictness): Work<CompiledSchema> {
  const { rules, root } = yield* rulesOfSchema(schema, strictness);
  const values = new ValueNodes(rules, style);
  const { writer } = values;
  const start = root.productive ? values.value(root) : writer.bytes([]);
  const alone = writer.call(start, style.brief ? RETURN : writer.blanks);
  return {
    program: { nodes: writer.nodes, start: style.brief ? alone : writer.call(writer.blanks, alone) },
    relaxed: rules.relaxations.list,
    satisfiable: root.productive,
  };
}

/**
 * Writes the grammar of a schema.
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword, or if no value satisfies the
 * schema
 */
export function* schemaGbnfWork(schema: JsonSchema, strictness: Strictness): Work<string> {
  const { rules, root } = yield* rulesOfSchema(schema, strictness);
  if (!root.productive) throw schemaError('', NO_VALUE);
  return yield* withinStates(new ValueGbnf(rules).text(root));
}

/**
 * The rules of a schema, and the rule of its values, for any notation of values.
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword
 */
export function* rulesOfSchema(schema: JsonSchema, strictness: Strictness): Work<{ readonly rules: Rules; readonly root: Rule }> {
  if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null || Array.isArray(schema)))
    throw schemaError('', `found ${shown(schema)}; expected true, false or an object`);
  refuseLarge(schema);
  const written = withWrittenNumbers(schema);
  const rules = new Rules(written, strictness);
  return { rules, root: yield* withinStates(rules.compile({ schema: written, pointer: '' })) };
}

/** @throws QuantletError ERR_GRAMMAR if the languages of all keywords together are too large */
function* withinStates<T>(work: Work<T>): Work<T> {
  try {
    return yield* work;
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw schemaError('', 'its patterns, lists and numbers have too many states together; expected fewer or simpler ones');
  }
}
