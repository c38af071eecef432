/** Metadata values by key, with their type checked. */
import { QuantletError } from '../errors.ts';
import type { GGUF, GGUFNumbers, GGUFValue } from './types.ts';

/** Argument of the getters: a GGUF, or anything else that has its metadata. */
export type HasMetadata = Pick<GGUF, 'metadata'>;

const isNumbers = (value: GGUFValue): value is GGUFNumbers => ArrayBuffer.isView(value);

/** A value for messages: its type, and the value itself if it is short. */
const show = (value: GGUFValue): string => {
  if (typeof value === 'string') return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value);
  if (isNumbers(value) || Array.isArray(value)) return `an array of ${value.length}`;
  return `the ${typeof value} ${String(value)}`;
};

/**
 * Value of a key, checked by `accept`. If the key is missing: `fallback`, or ERR_MISSING_METADATA
 * if that is undefined.
 */
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
      `the model's metadata has no "${key}"; expected ${expected}: convert the model again, or use a model made for this`,
    );
  }
  const accepted = accept(value);
  if (accepted === undefined) throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" is ${show(value)}; expected ${expected}`);
  return accepted;
};

/** A copy of a header with metadata values replaced or added. */
export const withMetadata = (gguf: GGUF, values: Readonly<Record<string, GGUFValue>> = {}): GGUF => ({
  ...gguf,
  metadata: new Map([...gguf.metadata, ...Object.entries(values)]),
});

export const getString = (gguf: HasMetadata, key: string, fallback?: string): string =>
  get(gguf, key, fallback, 'a string', (v) => (typeof v === 'string' ? v : undefined));

export const getBool = (gguf: HasMetadata, key: string, fallback?: boolean): boolean =>
  get(gguf, key, fallback, 'a bool', (v) => (typeof v === 'boolean' ? v : undefined));

/** A value of any of GGUF's number types; u64 and i64 only if exact. */
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

/**
 * An array of any number type, as indexable numbers. 64-bit integers are converted, and refused if
 * not exact.
 */
export const getNumbers = (gguf: HasMetadata, key: string, fallback?: ArrayLike<number>): ArrayLike<number> =>
  get<ArrayLike<number>>(gguf, key, fallback, 'an array of numbers', (v) => {
    // An empty array of strings or arrays is a plain array, which is the wrong type as well.
    if (!isNumbers(v)) return undefined;
    if (v instanceof BigUint64Array || v instanceof BigInt64Array) {
      const numbers = Array.from(v as Iterable<bigint>, Number);
      return numbers.every(Number.isSafeInteger) ? numbers : undefined;
    }
    return v;
  });

/**
 * A hyperparameter with one number for all layers, or an array with one for each (such as
 * `llama.attention.head_count_kv`). Returns an array of `n`.
 */
export const getNumberPerLayer = (gguf: HasMetadata, key: string, n: number, fallback?: number): readonly number[] => {
  const value = gguf.metadata.get(key);
  if (value === undefined || typeof value === 'number') return new Array<number>(n).fill(getNumber(gguf, key, fallback));
  const numbers = getNumbers(gguf, key);
  if (numbers.length < n)
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" has ${numbers.length} numbers; expected one for each of ${n} layers`);
  return Array.from({ length: n }, (_, i) => numbers[i]);
};

/** getNumberPerLayer() for whole numbers. */
export const getCountPerLayer = (gguf: HasMetadata, key: string, n: number, fallback?: number): readonly number[] => {
  const counts = getNumberPerLayer(gguf, key, n, fallback);
  const wrong = counts.find((count) => !Number.isInteger(count) || count < 0 || count >= 2 ** 31);
  if (wrong === undefined) return counts;
  throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" has ${wrong}; expected whole numbers from 0 to ${2 ** 31 - 1}`);
};

/**
 * The count that all layers with the part share; layers without the part have 0. 0 if no layer has
 * it.
 * @throws ERR_UNSUPPORTED_ARCH if layers differ
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
