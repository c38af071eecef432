/** Accessors that check a field of a request's body. Errors name the field as OpenAI does. */
import { isRecord, shortJson } from '../../chat/json.ts';
import { HttpError } from '../http/http-error.ts';

/** A request's JSON body. A field that is null counts as left out, as with OpenAI. */
export type Body = Readonly<Record<string, unknown>>;

/**
 * The value at a path such as `seed` or `thinking.type`; null gives undefined.
 * @throws HttpError 400 if a value on the path is not an object
 */
export function fieldAt(body: Body, path: string): unknown {
  let value: unknown = body;
  let at = '';
  for (const name of path.split('.')) {
    if (value === undefined) return undefined;
    if (!isRecord(value)) throw invalid(at, 'an object', value);
    value = value[name] ?? undefined;
    at = at === '' ? name : `${at}.${name}`;
  }
  return value;
}

/**
 * Error for an unexpected value. The message shows only its beginning, because it may be a large
 * part of the body.
 */
export function invalid(param: string, expected: string, found: unknown): HttpError {
  return new HttpError(400, `'${param}' is ${shortJson(found)}; expected ${expected}.`, {
    param,
    code: 'invalid_value',
  });
}

export function numberField(
  body: Body,
  name: string,
  bounds: { least?: number; most?: number; integer?: boolean } = {},
): number | undefined {
  const value = fieldAt(body, name);
  if (value === undefined) return undefined;
  const { least = -Infinity, integer = false, most = integer ? Number.MAX_SAFE_INTEGER : Infinity } = bounds;
  if (typeof value === 'number' && value >= least && value <= most && (!integer || Number.isInteger(value))) return value;
  const unbounded = most >= Number.MAX_SAFE_INTEGER && !((value as number) > most);
  const range = least === -Infinity ? '' : unbounded ? ` from ${least} on` : ` from ${least} to ${most}`;
  throw invalid(name, `${integer ? 'a whole number' : 'a number'}${range}`, value);
}

export function booleanField(body: Body, name: string): boolean | undefined {
  const value = fieldAt(body, name);
  if (value === undefined || typeof value === 'boolean') return value;
  throw invalid(name, 'true or false', value);
}

export function stringField(body: Body, name: string): string | undefined {
  const value = fieldAt(body, name);
  if (value === undefined || typeof value === 'string') return value;
  throw invalid(name, 'a string', value);
}

export function oneOfField<const T extends string>(body: Body, name: string, values: readonly T[]): T | undefined {
  const value = fieldAt(body, name);
  if (value === undefined || values.includes(value as T)) return value as T | undefined;
  throw invalid(name, values.map((one) => JSON.stringify(one)).join(' or '), value);
}

export function recordField(body: Body, name: string): Record<string, unknown> | undefined {
  const value = fieldAt(body, name);
  if (value === undefined || isRecord(value)) return value;
  throw invalid(name, 'an object', value);
}

/** A string or a list of strings. */
export function stringsField(body: Body, name: string, most: number): string[] | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined) return undefined;
  const list = typeof value === 'string' ? [value] : value;
  if (Array.isArray(list) && list.length <= most && list.every((item) => typeof item === 'string')) return list;
  throw invalid(name, `a string or a list of at most ${most} strings`, value);
}

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id) && (id as number) >= 0);

/** A text, a list of token ids, or a list of either; returned as a list. */
export function inputsField(body: Body, name: string, most: number): (string | number[])[] {
  const value = body[name] ?? undefined;
  if (typeof value === 'string' || isIds(value)) return [value];
  if (Array.isArray(value) && value.length > 0 && value.length <= most && value.every((item) => typeof item === 'string' || isIds(item)))
    return value as (string | number[])[];
  throw invalid(name, `a string, a list of token ids, or a list of 1 to ${most} of these`, value);
}

/**
 * OpenAI's `metadata` within its limits: 16 texts of 512 characters, with names of 64 characters.
 */
export function metadataField(body: Body): Record<string, unknown> {
  const metadata = recordField(body, 'metadata') ?? {};
  const entries = Object.entries(metadata);
  const fits = entries.every(([name, value]) => name.length <= 64 && typeof value === 'string' && value.length <= 512);
  if (entries.length > 16 || !fits)
    throw invalid('metadata', 'an object of at most 16 texts of 512 characters, with names of 64 characters', metadata);
  return metadata;
}
