/** Grammars of JSON schemas, for generations. */
import type { Work } from '../slices.ts';
import { grammarOf, type Grammar, type GrammarVocabulary } from './grammar.ts';
import { NO_VALUE, schemaError } from './schema-error.ts';
import { compileSchemaWork } from './schema/compile-schema.ts';
import type { StrictPart } from './schema/relaxed.ts';
import type { JsonSchema } from './schema.ts';

/** JSON as models write it best: properties in the order of the schema, and only what was asked for. */
export const WRITTEN = { ordered: true, closed: true, brief: true } as const;

/**
 * Makes the grammar of a JSON schema. A generator that pauses.
 * @param strict parts in which keywords must be held exactly
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword, or if no value satisfies the
 * schema
 */
export function* schemaGrammarWork(schema: JsonSchema, vocabulary: GrammarVocabulary, strict: readonly StrictPart[]): Work<Grammar> {
  const { program, relaxed, satisfiable } = yield* compileSchemaWork(schema, WRITTEN, { strict, wellFormed: true });
  if (!satisfiable) throw schemaError('', NO_VALUE);
  return grammarOf(program, vocabulary, relaxed);
}
