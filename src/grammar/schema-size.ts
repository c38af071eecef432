/** Limits of schemas, which come from clients. */
import { schemaError } from './schema-error.ts';

const MAX_DEPTH = 200;

/** Limits of values in a schema and of characters in its texts. */
export interface SchemaSize {
  readonly values: number;
  readonly characters: number;
}

/**
 * Refuses a schema that is too deep for the call stack, contains itself, or is too large to
 * compile.
 */
export function refuseLarge(schema: unknown, most: SchemaSize): void {
  let values = 0;
  let characters = 0;
  const visit = (part: unknown, depth: number): void => {
    if (depth > MAX_DEPTH)
      throw schemaError('', `the schema is nested more than ${MAX_DEPTH} deep (or contains itself); expected a flatter one, or $ref`);
    if (++values > most.values) throw schemaError('', `the schema has more than ${most.values} values; expected a smaller one`);
    if (typeof part === 'string') characters += part.length;
    else if (typeof part === 'object' && part !== null) {
      for (const [key, inner] of Object.entries(part)) {
        characters += key.length;
        visit(inner, depth + 1);
      }
    }
    if (characters > most.characters)
      throw schemaError('', `the texts of the schema have more than ${most.characters} characters; expected fewer or shorter ones`);
  };
  visit(schema, 0);
}
