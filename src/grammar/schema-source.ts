/**
 * JSON schemas in the forms that callers give: plain, in OpenAI's wrapping, or as a validator that
 * converts itself.
 */
import { QuantletError, tell } from '../errors.ts';
import { hintOf } from '../nearest.ts';
import type { StrictPart } from './schema/relaxed.ts';

/**
 * The form of the text: any text, any JSON object, or JSON that satisfies a schema. A schema is a
 * JSON schema, or a validator that converts itself to one (zod 4.2, ArkType and others that
 * implement Standard JSON Schema). Also accepted: OpenAI's form with the schema in `json_schema`,
 * and llama-server's json_object with a schema.
 */
export type ResponseFormat =
  | { readonly type: 'text' }
  | { readonly type: 'json_object'; readonly schema?: object | undefined }
  | { readonly type: 'json_schema'; readonly schema: object }
  | {
      readonly type: 'json_schema';
      readonly json_schema: {
        readonly schema?: object | undefined;
        readonly name?: string | undefined;
        readonly strict?: boolean | null | undefined;
      };
    };

/** A response format reduced to one form. */
export type PlainFormat =
  | { readonly type: 'text' }
  | { readonly type: 'json_object' }
  | {
      readonly type: 'json_schema';
      readonly schema: object;
      /** Parts whose keywords must be held exactly; none by default. */
      readonly strict?: readonly StrictPart[];
    };

/** Conversion functions to suggest for validators that do not convert themselves, by vendor. */
const CONVERTERS: Readonly<Record<string, string>> = {
  zod: 'z.toJSONSchema(schema) of zod 4',
  valibot: 'toJsonSchema(schema) of @valibot/to-json-schema',
  effect: 'JSONSchema.make(schema)',
};

interface StandardSchema {
  readonly vendor?: unknown;
  readonly jsonSchema?: { input?(options: { readonly target: string }): unknown };
}

const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);
const noGrammar = (message: string): QuantletError => new QuantletError('ERR_GRAMMAR', message);
const isObject = (value: unknown): value is Record<string, unknown> =>
  (typeof value === 'object' && value !== null && !Array.isArray(value)) || typeof value === 'function';

/**
 * The JSON schema of a schema or a validator.
 * @param where its name in errors, such as "responseFormat.schema"
 * @throws ERR_GRAMMAR for a value that is not a schema, and for a validator without one
 */
export function schemaOf(where: string, given: unknown): object {
  if (!isObject(given)) throw noGrammar(`${where} is ${tell(given)}; expected a JSON schema`);
  const standard = given['~standard'] as StandardSchema | undefined;
  if (isObject(standard)) return ownSchema(where, standard);
  if (typeof given === 'function') throw noGrammar(`${where} is a function; expected a JSON schema`);
  // Validators older than the standard (zod 3), whose fields would be taken for keywords.
  if (typeof given.safeParse === 'function') throw noSchema(where, '_def' in given ? 'zod' : 'unknown');
  return given;
}

/** The schema of a validator's input, because the answer becomes that input. */
function ownSchema(where: string, { vendor, jsonSchema }: StandardSchema): object {
  if (typeof jsonSchema?.input !== 'function') throw noSchema(where, String(vendor));
  const cause = { cause: undefined as unknown };
  try {
    const schema = jsonSchema.input({ target: 'draft-2020-12' });
    if (isObject(schema)) return schema;
  } catch (error) {
    cause.cause = error;
  }
  const why = cause.cause instanceof Error ? cause.cause.message : 'it gives none';
  throw new QuantletError(
    'ERR_GRAMMAR',
    `${where} is a schema of ${String(vendor)} that cannot be converted to JSON schema: ${why}`,
    cause,
  );
}

function noSchema(where: string, vendor: string): QuantletError {
  const convert = Object.hasOwn(CONVERTERS, vendor) ? CONVERTERS[vendor] : 'the function of its library that writes JSON schemas';
  return noGrammar(`${where} is a validator (${vendor}) that cannot say its JSON schema; give what ${convert} makes of it`);
}

const SCHEMA_TYPES: readonly unknown[] = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];
const SCHEMA_KEYWORDS = ['$schema', '$ref', 'properties', 'items', 'enum', 'const', 'anyOf', 'oneOf', 'allOf'];

/** True for a validator or a JSON schema, given where a response format belongs. */
const isSchema = (format: object): boolean =>
  '~standard' in format ||
  ('safeParse' in format && typeof format.safeParse === 'function') ||
  ('type' in format && SCHEMA_TYPES.includes(format.type)) ||
  (!('type' in format) && SCHEMA_KEYWORDS.some((key) => key in format));

/** Known fields of a format, including OpenAI's fields without an effect on a grammar. */
const OPENAI_FIELDS = ['schema', 'name', 'description', 'strict'];
const FORMAT_FIELDS = ['type', 'json_schema', ...OPENAI_FIELDS];

function checkFields(where: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw bad(`${where} has "${unknown}"; ${hintOf(unknown, known)} ${known.join(', ')}`);
}

const strictness = (given: object): { strict?: readonly StrictPart[] } =>
  'strict' in given && given.strict === true ? { strict: [{ pointer: '', name: '' }] } : {};

/**
 * Reduces a response format to one form, with a JSON schema.
 * @throws ERR_INVALID_ARGUMENT for an invalid format, ERR_GRAMMAR for an invalid schema
 */
export function plainFormat(format: ResponseFormat): PlainFormat {
  const types = ['text', 'json_object', 'json_schema'];
  const expected = `{ type: 'text' }, { type: 'json_object' } or { type: 'json_schema', schema }`;
  if (!isObject(format)) throw bad(`responseFormat is ${tell(format)}; expected ${expected}`);
  const { type } = format;
  if (isSchema(format)) throw bad(`responseFormat is a schema; expected { type: 'json_schema', schema }`);
  if (!types.includes(type)) throw bad(`responseFormat.type is ${tell(type)}; ${hintOf(type, types)} ${expected}`);
  if (type !== 'json_schema' || 'schema' in format || 'json_schema' in format) checkFields('responseFormat', format, FORMAT_FIELDS);
  if (format.type === 'text') return { type: 'text' };
  if ('schema' in format && format.schema !== undefined)
    return { type: 'json_schema', schema: schemaOf('responseFormat.schema', format.schema), ...strictness(format) };
  if (format.type === 'json_object') return { type: 'json_object' };
  const wrapped: unknown = 'json_schema' in format ? format.json_schema : undefined;
  if (isObject(wrapped)) checkFields('responseFormat.json_schema', wrapped, OPENAI_FIELDS);
  if (isObject(wrapped) && wrapped.schema !== undefined)
    return { type: 'json_schema', schema: schemaOf('responseFormat.json_schema.schema', wrapped.schema), ...strictness(wrapped) };
  const other = Object.keys(format).find((key) => key !== 'type');
  throw noGrammar(`responseFormat has ${other ? `"${other}", but no schema` : 'no schema'}; expected { type: 'json_schema', schema }`);
}
