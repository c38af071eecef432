/** Metadata values by key, checked for their type. */
import { QuantletError } from '../errors.ts';
import type { GGUF, GGUFNumbers, GGUFValue } from './types.ts';

/** What the getters look into: a GGUF, or anything that carries its metadata. */
export type HasMetadata = Pick<GGUF, 'metadata'>;

const isNumbers = (value: GGUFValue): value is GGUFNumbers => ArrayBuffer.isView(value);

/** A value as a message shows it: what kind it is, and itself where it is short. */
const show = (value: GGUFValue): string => {
  if (typeof value === 'string') return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value);
  if (isNumbers(value) || Array.isArray(value)) return `an array of ${value.length}`;
  return `the ${typeof value} ${String(value)}`;
};

/** The checked value of a key; where the key is missing, `fallback`, or ERR_MISSING_METADATA without one. */
const get = <T>(
  gguf: HasMetadata,
  key: string,
  fallback: T | undefined,
  expected: string,
  accept: (value: GGUFValue) => T | undefined,
): T => {
  const value = gguf.metadata.get(key);
  if (value === undefined) {
    if (fallback !== undefined) return fallback;
    throw new QuantletError(
      'ERR_MISSING_METADATA',
      `the model's metadata has no "${key}"; expected ${expected}: convert the model again, or use a model that is made for this`,
    );
  }
  const accepted = accept(value);
  if (accepted === undefined) throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" is ${show(value)}, expected ${expected}`);
  return accepted;
};

/** A header with other values in place of its own, or beside them. */
export const withMetadata = (gguf: GGUF, values: Readonly<Record<string, GGUFValue>> = {}): GGUF => ({
  ...gguf,
  metadata: new Map([...gguf.metadata, ...Object.entries(values)]),
});

export const getString = (gguf: HasMetadata, key: string, fallback?: string): string =>
  get(gguf, key, fallback, 'a string', (v) => (typeof v === 'string' ? v : undefined));

export const getBool = (gguf: HasMetadata, key: string, fallback?: boolean): boolean =>
  get(gguf, key, fallback, 'a bool', (v) => (typeof v === 'boolean' ? v : undefined));

/** Any of GGUF's number types; u64 and i64 only where exact. */
export const getNumber = (gguf: HasMetadata, key: string, fallback?: number): number =>
  get(gguf, key, fallback, 'a number', (v) => (typeof v === 'number' ? v : undefined));

/** A whole number from `least` to `most`: sizes, counts, ids. */
export const getCount = (gguf: HasMetadata, key: string, fallback?: number, least = 0, most = 2 ** 31 - 1): number =>
  get(gguf, key, fallback, `a whole number from ${least} to ${most}`, (v) =>
    typeof v === 'number' && Number.isInteger(v) && v >= least && v <= most ? v : undefined,
  );

export const getStrings = (gguf: HasMetadata, key: string, fallback?: readonly string[]): readonly string[] =>
  get(gguf, key, fallback, 'an array of strings', (v) =>
    Array.isArray(v) && v.every((s) => typeof s === 'string') ? (v as readonly string[]) : undefined,
  );

/** An array of any number type as plain indexable numbers; 64-bit integers are converted, and refused where not exact. */
export const getNumbers = (gguf: HasMetadata, key: string, fallback?: ArrayLike<number>): ArrayLike<number> =>
  get<ArrayLike<number>>(gguf, key, fallback, 'an array of numbers', (v) => {
    // An empty array of strings or arrays is a plain array: it has the wrong type, too.
    if (!isNumbers(v)) return undefined;
    if (v instanceof BigUint64Array || v instanceof BigInt64Array) {
      const numbers = Array.from(v as Iterable<bigint>, Number);
      return numbers.every(Number.isSafeInteger) ? numbers : undefined;
    }
    return v;
  });

/**
 * A hyperparameter that is one number for all layers or an array of one for each (`llama.attention.head_count_kv` may be either),
 * as an array of `n`.
 */
export const getNumberPerLayer = (gguf: HasMetadata, key: string, n: number, fallback?: number): readonly number[] => {
  const value = gguf.metadata.get(key);
  if (value === undefined || typeof value === 'number') return new Array<number>(n).fill(getNumber(gguf, key, fallback));
  const numbers = getNumbers(gguf, key);
  if (numbers.length < n)
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" has ${numbers.length} numbers, expected one for each of ${n} layers`);
  return Array.from({ length: n }, (_, i) => numbers[i]);
};

/** The same for whole numbers. */
export const getCountPerLayer = (gguf: HasMetadata, key: string, n: number, fallback?: number): readonly number[] => {
  const counts = getNumberPerLayer(gguf, key, n, fallback);
  const wrong = counts.find((count) => !Number.isInteger(count) || count < 0 || count >= 2 ** 31);
  if (wrong === undefined) return counts;
  throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" has ${wrong}, expected whole numbers from 0 to ${2 ** 31 - 1}`);
};

/**
 * The one count of all layers that have a part: those without it say 0. 0 where none has it.
 * @throws ERR_UNSUPPORTED_ARCH for layers that differ
 */
export const sameCount = (gguf: HasMetadata, what: string, counts: readonly number[]): number => {
  const found = [...new Set(counts.filter((n) => n > 0))];
  if (found.length <= 1) return found[0] ?? 0;
  throw new QuantletError(
    'ERR_UNSUPPORTED_ARCH',
    `this ${getArchitecture(gguf)} model has a different ${what} in some layers (${found.join(', ')}), which quantlet does not run yet`,
  );
};

/** `general.architecture`, the prefix of the model's own keys. */
export const getArchitecture = (gguf: HasMetadata): string => getString(gguf, 'general.architecture');
