/** JSON schemas as documents: pointers, equality of values. */
import { shortJson } from '../chat/json.ts';
import { WrittenNumber } from './exact-number.ts';

/** A JSON Schema: true (anything), false (nothing), or keywords. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

export const escapePointer = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');

/** The value at a JSON pointer; undefined if there is no such value. */
export function valueAt(document: unknown, pointer: string): unknown {
  let value = document;
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** A value, shortened for an error. */
export const shown = (value: unknown): string => (value instanceof WrittenNumber ? value.text.slice(0, 80) : shortJson(value));

/** A text that is equal for equal JSON values only. The order of properties does not matter. */
export function jsonKey(value: unknown): string {
  if (value instanceof WrittenNumber) return value.key;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(jsonKey).join()}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${jsonKey((value as Record<string, unknown>)[name])}`).join()}}`;
}
