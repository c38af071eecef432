/** Options, checked in one way: a table names those that there are and says what each may be. */
import { QuantletError, tell } from './errors.ts';
import { nearest } from './nearest.ts';

export interface Kind {
  is(value: unknown): boolean;
  /** What a message says was expected. */
  readonly expected: string;
  /** Whether it cannot be left out. */
  readonly required?: boolean;
}

/** Every option of P and what it may be. */
export type Kinds<P> = { readonly [N in keyof Required<P>]: Kind };

const numbers = (expected: string, ok: (n: number) => boolean): Kind => ({ is: (v) => typeof v === 'number' && ok(v), expected });

export const KIND = {
  number: numbers('a number', (n) => !Number.isNaN(n)),
  finite: numbers('a finite number', Number.isFinite),
  positive: numbers('a finite number above 0', (n) => n > 0 && Number.isFinite(n)),
  atLeast0: numbers('a number of at least 0', (n) => n >= 0),
  count: numbers('a whole number of at least 0', (n) => Number.isSafeInteger(n) && n >= 0),
  size: numbers('a whole number of at least 1', (n) => Number.isSafeInteger(n) && n >= 1),
  boolean: { is: (v) => typeof v === 'boolean', expected: 'true or false' },
  string: { is: (v) => typeof v === 'string', expected: 'a string' },
  /** Checked where it is used. */
  any: { is: () => true, expected: 'anything' },
  /** Told by what it does: signals of other realms stop things too. */
  signal: { is: (v) => typeof v === 'object' && v !== null && 'aborted' in v && 'addEventListener' in v, expected: 'an AbortSignal' },
} satisfies { [name: string]: Kind };

export const oneOf = (...values: readonly string[]): Kind => ({ is: (v) => values.includes(v as string), expected: values.map((v) => JSON.stringify(v)).join(' or ') });
export const required = (kind: Kind): Kind => ({ ...kind, required: true });

/** Whether it can be a set of options: tensors, lists, signals and arrays of numbers are objects too. */
export const isPlain = (value: unknown): value is object => Object.prototype.toString.call(value) === '[object Object]' && !('ne' in (value as object));

/** @throws ERR_INVALID_ARGUMENT naming the argument, what it was and what it should be */
export function checkValue(where: string, name: string, value: unknown, kind: Kind): void {
  if (!kind.is(value)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: ${name} is ${tell(value)}; expected ${kind.expected}`);
}

/**
 * The options as they are; one that is undefined counts as left out.
 * @throws ERR_INVALID_ARGUMENT where they are no object, for a name that is not in the table (with the one that may be meant), a value of another kind, or none where one must be
 */
export function checkOptions<P extends object>(where: string, options: P | undefined, kinds: Kinds<P>): P {
  const names = Object.keys(kinds), given: object = options ?? {};
  if (options === null || !isPlain(given)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: the options are ${tell(options)}; expected an object { ${names.join(', ')} }`);
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(kinds, name)) continue;
    const [meant] = nearest(name.toLowerCase().replaceAll('_', ''), names.map((n) => n.toLowerCase()), 2), hint = names.find((n) => n.toLowerCase() === meant);
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: there is no option "${name}"; ${hint ? `did you mean ${hint}? There ${names.length > 1 ? 'are' : 'is'}` : 'expected'} ${names.join(', ')}`);
  }
  for (const [name, kind] of Object.entries<Kind>(kinds)) {
    const value = (given as { readonly [name: string]: unknown })[name];
    if (value !== undefined) checkValue(where, name, value, kind);
    else if (kind.required) throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: the option ${name} is missing; expected ${kind.expected}`);
  }
  return given as P;
}
