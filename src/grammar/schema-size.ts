/** Limits of schemas, which come from clients. */
import { schemaError } from './schema-error.ts';

const MAX_DEPTH = 200;

const MAX_VALUES = 200_000;
const MAX_CHARACTERS = 4_000_000;

/**
 * Refuses a schema that is too deep for the call stack, contains itself, or is too large to
 * compile.
 */
export function refuseLarge(schema: unknown): void {
  let values = 0;
  let characters = 0;
  const visit = (part: unknown, depth: number): void => {
    if (depth > MAX_DEPTH)
      throw schemaError('', `the schema is nested more than ${MAX_DEPTH} deep (or contains itself); expected a flatter one, or $ref`);
    if (++values > MAX_VALUES) throw schemaError('', `the schema has more than ${MAX_VALUES} values; expected a smaller one`);
    if (typeof part === 'string') characters += part.length;
    else if (typeof part === 'object' && part !== null) {
      for (const [key, inner] of Object.entries(part)) {
        characters += key.length;
        visit(inner, depth + 1);
      }
    }
    if (characters > MAX_CHARACTERS)
      throw schemaError('', `the texts of the schema have more than ${MAX_CHARACTERS} characters; expected fewer or shorter ones`);
  };
  visit(schema, 0);
}
