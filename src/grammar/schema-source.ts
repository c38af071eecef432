/** JSON schemas as callers give them: plain, in OpenAI's wrapping, or as a validator that converts itself. */
import { QuantletError, tell } from '../errors.ts';
import { hintOf } from '../nearest.ts';

/**
 * The form of a text: any text, any JSON object, or JSON that fits a schema (also llama-server's json_object with a schema). A
 * schema is a JSON schema, or a validator that converts itself to one (zod 4.2, ArkType and others that implement Standard JSON
 * Schema). OpenAI's form, with the schema in `json_schema`, means the same.
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

/** A response format in one form. */
export type PlainFormat =
  { readonly type: 'text' } | { readonly type: 'json_object' } | { readonly type: 'json_schema'; readonly schema: object };

/** Functions that turn a validator without a schema of its own into one, by the vendor that it names. */
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
 * @param where names it in messages: "responseFormat.schema"
 * @throws ERR_GRAMMAR for a value that is not a schema, and for a validator that has none
 */
export function schemaOf(where: string, given: unknown): object {
  if (!isObject(given)) throw noGrammar(`${where} is ${tell(given)}; expected a JSON schema`);
  const standard = given['~standard'] as StandardSchema | undefined;
  if (isObject(standard)) return ownSchema(where, standard);
  if (typeof given === 'function') throw noGrammar(`${where} is a function; expected a JSON schema`);
  // Validators from before that standard (zod 3): their fields would be read as keywords.
  if (typeof given.safeParse === 'function') throw noSchema(where, '_def' in given ? 'zod' : 'unknown');
  return given;
}

/** The schema of a validator's input: the validator reads the answer. */
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
  throw new QuantletError('ERR_GRAMMAR', `${where} is a schema of ${String(vendor)} that has no JSON schema: ${why}`, cause);
}

function noSchema(where: string, vendor: string): QuantletError {
  const convert = Object.hasOwn(CONVERTERS, vendor) ? CONVERTERS[vendor] : 'the function of its library that writes JSON schemas';
  return noGrammar(`${where} is a validator (${vendor}) that cannot say its JSON schema; give what ${convert} makes of it`);
}

const SCHEMA_TYPES: readonly unknown[] = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];
const SCHEMA_KEYWORDS = ['$schema', '$ref', 'properties', 'items', 'enum', 'const', 'anyOf', 'oneOf', 'allOf'];

/** Tells a validator or a JSON schema from a response format that would hold one. */
const isSchema = (format: object): boolean =>
  '~standard' in format ||
  ('safeParse' in format && typeof format.safeParse === 'function') ||
  ('type' in format && SCHEMA_TYPES.includes(format.type)) ||
  (!('type' in format) && SCHEMA_KEYWORDS.some((key) => key in format));

/** Fields of a format, with those of OpenAI's that mean nothing to a grammar. */
const OPENAI_FIELDS = ['schema', 'name', 'description', 'strict'];
const FORMAT_FIELDS = ['type', 'json_schema', ...OPENAI_FIELDS];

function checkFields(where: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw bad(`${where} has "${unknown}"; ${hintOf(unknown, known)} ${known.join(', ')}`);
}

/** A response format in one form, its schema a JSON schema. @throws ERR_INVALID_ARGUMENT for an invalid format, ERR_GRAMMAR for an invalid schema */
export function plainFormat(format: ResponseFormat): PlainFormat {
  const types = ['text', 'json_object', 'json_schema'];
  const expected = `{ type: 'text' }, { type: 'json_object' } or { type: 'json_schema', schema }`;
  if (!isObject(format)) throw bad(`responseFormat is ${tell(format)}; expected ${expected}`);
  const { type } = format;
  if (isSchema(format)) throw bad(`responseFormat is a schema; expected it inside: { type: 'json_schema', schema }`);
  if (!types.includes(type)) throw bad(`responseFormat.type is ${tell(type)}; ${hintOf(type, types)} ${expected}`);
  if (type !== 'json_schema' || 'schema' in format || 'json_schema' in format) checkFields('responseFormat', format, FORMAT_FIELDS);
  if (format.type === 'text') return { type: 'text' };
  if ('schema' in format && format.schema !== undefined)
    return { type: 'json_schema', schema: schemaOf('responseFormat.schema', format.schema) };
  if (format.type === 'json_object') return { type: 'json_object' };
  const wrapped: unknown = 'json_schema' in format ? format.json_schema : undefined;
  if (isObject(wrapped)) checkFields('responseFormat.json_schema', wrapped, OPENAI_FIELDS);
  if (isObject(wrapped) && wrapped.schema !== undefined)
    return { type: 'json_schema', schema: schemaOf('responseFormat.json_schema.schema', wrapped.schema) };
  const other = Object.keys(format).find((key) => key !== 'type');
  throw noGrammar(`responseFormat has ${other ? `"${other}", but no schema` : 'no schema'}; expected { type: 'json_schema', schema }`);
}
