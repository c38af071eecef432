/** Compiles a JSON schema to an automaton over bytes. */
import type { Work } from '../../slices.ts';
import { withWrittenNumbers } from '../exact-number.ts';
import { RETURN, type Program } from '../program.ts';
import { schemaError } from '../schema-error.ts';
import { refuseLarge } from '../schema-size.ts';
import { shown, type JsonSchema } from '../schema.ts';
import type { Relaxation, Strictness } from './relaxed.ts';
import { Rules } from './rules.ts';
import { ValueNodes } from './value-nodes.ts';
import type { Rule, Style } from './rule.ts';
import { TooManyStates } from './regex.ts';

const MOST = { values: 200_000, characters: 4_000_000 };

export interface CompiledSchema {
  readonly program: Program;
  /** Keywords that are held only in part. */
  readonly relaxed: readonly Relaxation[];
  /** False if no value satisfies the schema. */
  readonly satisfiable: boolean;
}

/**
 * Compiles a schema.
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword
 */
export function* compileSchemaWork(schema: JsonSchema, style: Style, strictness: Strictness): Work<CompiledSchema> {
  if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null || Array.isArray(schema)))
    throw schemaError('', `found ${shown(schema)}; expected true, false or an object`);
  refuseLarge(schema, MOST);
  const written = withWrittenNumbers(schema);
  const rules = new Rules(written, strictness);
  const root = yield* compiled(rules, written);
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

/** @throws QuantletError ERR_GRAMMAR if the languages of all keywords together are too large */
function* compiled(rules: Rules, schema: JsonSchema): Work<Rule> {
  try {
    return yield* rules.compile({ schema, pointer: '' });
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw schemaError('', 'its patterns, lists and numbers have too many states together; expected fewer or simpler ones');
  }
}
