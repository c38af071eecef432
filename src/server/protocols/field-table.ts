/**
 * Tables of request fields: each is read, ignored or refused. Fields that would change an answer
 * must not be ignored.
 */
import { isRecord, shortJson } from '../../chat/json.ts';
import type { Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';

export type Field =
  | { readonly fate: 'read' }
  /** `why`: reason why the answer is the same without the field. */
  | { readonly fate: 'ignored'; readonly why: string }
  /**
   * `remedy`: what to send instead. `allowed`: values that have no effect. `details`: error details
   * for the protocol's client.
   */
  | { readonly fate: 'refused'; readonly remedy: string; readonly allowed: readonly Allowed[]; readonly details?: object };

/** A value, or a named predicate on values. */
export type Allowed =
  string | number | boolean | readonly unknown[] | { readonly name: string; readonly test: (value: unknown) => boolean };

/** Fields by path: `thinking.type`, `tools[].type`. */
export type FieldTable = Readonly<Record<string, Field>>;
/**
 * Refused fields, which a server needs at run time. The complete tables are functions, so that
 * bundles can omit them.
 */
export type Refusals = Readonly<Record<string, Field & { readonly fate: 'refused' }>>;

export const read: Field = { fate: 'read' };
export const ignored = (why: string): Field => ({ fate: 'ignored', why });
export const refused = (remedy: string, ...allowed: Allowed[]) => ({ fate: 'refused', remedy, allowed }) as const;
export const all = <F extends Field>(field: F, names: string): Readonly<Record<string, F>> =>
  Object.fromEntries(names.split(' ').map((name) => [name, field]));

export const LEAVE_OUT = 'Leave it out.';

/** The values at a path, each with its concrete path. A null counts as left out. */
function* valuesAt(value: unknown, names: readonly string[], at = ''): Generator<readonly [path: string, value: unknown], void> {
  const [name, ...rest] = names;
  if (name === undefined) {
    yield [at, value];
    return;
  }
  const isList = name.endsWith('[]');
  const own = isList ? name.slice(0, -2) : name;
  const next = isRecord(value) && Object.hasOwn(value, own) ? (value[own] ?? undefined) : undefined;
  if (next === undefined) return;
  const path = at === '' ? own : `${at}.${own}`;
  if (!isList) yield* valuesAt(next, rest, path);
  else if (Array.isArray(next)) for (const [i, item] of next.entries()) yield* valuesAt(item, rest, `${path}[${i}]`);
}

const isAllowed = (value: unknown, allowed: Allowed): boolean => {
  if (Array.isArray(allowed)) return Array.isArray(value) && value.length === allowed.length && value.every((one, i) => one === allowed[i]);
  return typeof allowed === 'object' && 'test' in allowed ? allowed.test(value) : value === allowed;
};

/** Text of an allowed value, for messages and tables. */
export const allowedName = (allowed: Allowed): string =>
  typeof allowed === 'object' && 'name' in allowed ? allowed.name : JSON.stringify(allowed);

/** @throws HttpError 400 naming the first refused field */
export function checkFields(refusals: Refusals, body: Body): void {
  for (const [path, field] of Object.entries(refusals)) {
    for (const [at, value] of valuesAt(body, path.split('.')))
      if (!field.allowed.some((allowed) => isAllowed(value, allowed))) throw unsupported(at, value, field);
  }
}

/** Error for a field that is not supported. */
export function unsupported(
  param: string,
  value: unknown,
  { remedy, allowed = [], details }: { readonly remedy: string; readonly allowed?: readonly Allowed[]; readonly details?: object },
): HttpError {
  const expected = allowed.length === 0 ? '' : `; expected ${allowed.map(allowedName).join(', ')}`;
  return new HttpError(400, `'${param}' is ${shortJson(value)}, which is not supported here${expected}. ${remedy}`, {
    param,
    code: 'unsupported_parameter',
    ...(details ? { details } : {}),
  });
}
