/** Converts JSON schemas to GBNF. */
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { atOnce, type Work } from '../slices.ts';
import { schemaGbnfWork } from './schema/compile-schema.ts';
import { WHOLE } from './schema/relaxed.ts';
import type { JsonSchema } from './schema.ts';

export type { JsonSchema } from './schema.ts';

/** Options of jsonSchemaToGrammar(). */
export interface SchemaGrammarOptions {
  /** Refuses keywords that can only be held in part. False by default. */
  readonly strict?: boolean | undefined;
}

const KINDS: Kinds<SchemaGrammarOptions> = { strict: KIND.boolean };

/**
 * Makes a GBNF grammar for JSON that satisfies the schema, though not for every such text.
 * Properties come in the order of the schema. Objects and arrays are closed if the schema lists
 * their parts and does not open them itself (additionalProperties, items). Numbers have a bounded
 * number of digits. Keywords that a grammar cannot hold are held as far as possible.
 * @throws QuantletError ERR_GRAMMAR naming the path and the keyword, or if no value satisfies the
 * schema
 */
export function jsonSchemaToGrammar(schema: JsonSchema, options: SchemaGrammarOptions = {}): string {
  return atOnce(jsonSchemaWork(schema, options));
}

/** jsonSchemaToGrammar() as a generator that pauses. */
export function* jsonSchemaWork(schema: JsonSchema, options: SchemaGrammarOptions = {}): Work<string> {
  const { strict = false } = checkOptions('jsonSchemaToGrammar', options, KINDS);
  return yield* schemaGbnfWork(schema, { strict: strict ? [WHOLE] : [], wellFormed: true });
}
