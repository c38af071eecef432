/** Checks of options by tables, which list the options of a function and the kind of each. */
import { QuantletError, tell } from './errors.ts';
import { hintOf, meant } from './nearest.ts';

export interface Kind {
  is(value: unknown): boolean;
  /** Description of valid values, for messages. */
  readonly expected: string;
  /** The option cannot be omitted. */
  readonly required?: boolean;
  /** Valid texts, if there is a list: a message suggests the nearest. */
  readonly texts?: readonly string[];
  /** For internal use: messages do not list it. */
  readonly internal?: boolean;
  /** Table of an option that is itself a set of options. */
  readonly nested?: Kinds<object>;
}

/** A kind with a default. */
export interface Standard<T> extends Kind {
  readonly standard: T;
}

/** Every option of P and its kind. */
export type Kinds<P> = { readonly [N in keyof Required<P>]: Kind };

/** Options with the defaults of a table filled in. */
export type Resolved<P, K> = {
  readonly [N in keyof P]-?: N extends keyof K
    ? K[N] extends { readonly standard: unknown }
      ? NonNullable<P[N]>
      : P[N] | undefined
    : P[N];
};

/** The named fields alone. */
export const pick = <T extends object, K extends keyof T>(table: T, ...names: readonly K[]): Pick<T, K> =>
  Object.fromEntries(names.map((name) => [name, table[name]])) as Pick<T, K>;

const numbers = (expected: string, ok: (n: number) => boolean): Kind => ({ is: (v) => typeof v === 'number' && ok(v), expected });

export const KIND = {
  number: numbers('a number', (n) => !Number.isNaN(n)),
  finite: numbers('a finite number', Number.isFinite),
  positive: numbers('a finite number above 0', (n) => n > 0 && Number.isFinite(n)),
  share: numbers('a share above 0 and at most 1', (n) => n > 0 && n <= 1),
  atLeast0: numbers('a number of at least 0', (n) => n >= 0),
  count: numbers('a whole number of at least 0', (n) => Number.isSafeInteger(n) && n >= 0),
  size: numbers('a whole number of at least 1', (n) => Number.isSafeInteger(n) && n >= 1),
  boolean: { is: (v) => typeof v === 'boolean', expected: 'true or false' },
  string: { is: (v) => typeof v === 'string', expected: 'a string' },
  function: { is: (v) => typeof v === 'function', expected: 'a function' },
  list: { is: Array.isArray, expected: 'a list' },
  /** An object of strings, such as headers. */
  strings: { is: (v) => isPlain(v) && Object.values(v).every((s) => typeof s === 'string'), expected: 'an object of strings' },
  object: { is: (v) => isPlain(v), expected: 'an object' },
  turbo: { is: (v) => v === 'auto' || typeof v === 'boolean', expected: '"auto", true or false' },
  /** Checked where it is used. */
  any: { is: () => true, expected: 'anything' },
  /** Recognised by its members, because signals of other realms must work, too. */
  signal: { is: (v) => typeof v === 'object' && v !== null && 'aborted' in v && 'addEventListener' in v, expected: 'an AbortSignal' },
} satisfies { [name: string]: Kind };

export const oneOf = (...values: readonly string[]): Kind => ({
  is: (v) => values.includes(v as string),
  expected: values.map((v) => JSON.stringify(v)).join(' or '),
  texts: values,
});
export const whole = (least: number, most = 2 ** 31 - 1): Kind =>
  numbers(`a whole number from ${least} to ${most}`, (n) => Number.isInteger(n) && n >= least && n <= most);
export const required = (kind: Kind): Kind => ({ ...kind, required: true });
export const internal = <K extends Kind>(kind: K): K => ({ ...kind, internal: true });
/** Adds a default to a kind. */
export const or = <const T>(kind: Kind, standard: T): Standard<T> => ({ ...kind, standard });
/** Kind of an option that is a set of options. Its table is checked together with the outer one. */
export const nested = <P extends object>(kinds: Kinds<P>): Kind => ({ ...KIND.object, nested: kinds });

/** If a table has more options than this, a message that suggests one does not list them all. */
const MANY = 12;

/**
 * True for objects that can be a set of options, but not for tensors, lists, signals and typed
 * arrays.
 */
export const isPlain = (value: unknown): value is object =>
  Object.prototype.toString.call(value) === '[object Object]' && !('ne' in (value as object));

/** Shorter texts are near to too many others: f16 is not a misspelt f32. */
const SHORTEST_MISSPELT = 5;

/** @throws ERR_INVALID_ARGUMENT naming the argument, its value and the expected kind */
export function checkValue(where: string, name: string, value: unknown, kind: Kind): void {
  if (kind.is(value)) return;
  const texts = typeof value === 'string' && value.length >= SHORTEST_MISSPELT ? kind.texts : undefined;
  throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: ${name} is ${tell(value)}; ${hintOf(value, texts ?? [])} ${kind.expected}`);
}

/**
 * Checks options and returns them. An undefined option counts as omitted.
 * @throws ERR_INVALID_ARGUMENT if they are not an object, a name is not in the table (suggesting
 * the nearest), a value is of another kind, or a required option is missing
 */
export function checkOptions<P extends object>(where: string, options: P | undefined, kinds: Kinds<P>): P {
  const names = Object.entries<Kind>(kinds).flatMap(([name, kind]) => (kind.internal ? [] : [name]));
  const given: object = options ?? {};
  if (options === null || !isPlain(given))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `${where}: the options are ${tell(options)}; expected an object { ${names.join(', ')} }`,
    );
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(kinds, name)) continue;
    const hint = meant(name, names);
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `${where}: there is no option "${name}"; ${hint && names.length > MANY ? `did you mean ${hint}?` : `${hint ? `did you mean ${hint}? There ${names.length > 1 ? 'are' : 'is'}` : 'expected'} ${names.join(', ')}`}`,
    );
  }
  for (const [name, kind] of Object.entries<Kind>(kinds)) {
    const value = (given as { readonly [name: string]: unknown })[name];
    if (value !== undefined) {
      checkValue(where, name, value, kind);
      if (kind.nested) checkOptions(`${where}: ${name}`, value as object, kind.nested);
    }
    if (value === undefined && kind.required)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: the option ${name} is missing; expected ${kind.expected}`);
  }
  return given as P;
}

/**
 * checkOptions(), and fills omitted options with the table's defaults.
 * @throws as checkOptions()
 */
export function resolveOptions<P extends object, const K extends Kinds<P>>(
  where: string,
  options: P | undefined,
  kinds: K & Kinds<P>,
): Resolved<P, K> {
  const given = checkOptions(where, options, kinds) as { readonly [name: string]: unknown };
  return Object.fromEntries(
    Object.entries<Kind & { readonly standard?: unknown }>(kinds).map(([name, kind]) => [
      name,
      given[name] === undefined ? kind.standard : given[name],
    ]),
  ) as Resolved<P, K>;
}
