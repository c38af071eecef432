import { describe, expect, test } from 'vitest';
import {
  getArchitecture,
  getBool,
  getCount,
  getNumber,
  getNumberPerLayer,
  getNumbers,
  getString,
  getStrings,
} from '../../src/gguf/metadata.ts';
import type { GGUFValue } from '../../src/gguf/types.ts';

const gguf = {
  metadata: new Map<string, GGUFValue>([
    ['general.architecture', 'llama'],
    ['n', 7],
    ['x', 0.5],
    ['big', 2n ** 63n],
    ['flag', false],
    ['empty', ''],
    ['tokens', ['a', 'b']],
    ['flags', Uint8Array.of(1, 0)],
    ['scores', Float32Array.of(1, 2)],
    ['ids', BigInt64Array.of(-1n, 2n)],
    ['huge', BigUint64Array.of(2n ** 60n)],
    ['heads', Uint32Array.of(8, 4, 2)],
  ]),
};

test('present values', () => {
  expect(getArchitecture(gguf)).toBe('llama');
  expect(getNumber(gguf, 'n')).toBe(7);
  expect(getNumber(gguf, 'x', 3)).toBe(0.5);
  expect(getCount(gguf, 'n')).toBe(7);
  expect(getBool(gguf, 'flag', true)).toBe(false);
  expect(getString(gguf, 'empty', 'x')).toBe('');
  expect(getStrings(gguf, 'tokens')).toEqual(['a', 'b']);
  expect(getNumbers(gguf, 'scores')).toEqual(Float32Array.of(1, 2));
  expect(getNumbers(gguf, 'ids')).toEqual([-1, 2]);
});

test('fallbacks for missing keys', () => {
  expect(getNumber(gguf, 'none', 0)).toBe(0);
  expect(getBool(gguf, 'none', false)).toBe(false);
  expect(getString(gguf, 'none', '')).toBe('');
  expect(getStrings(gguf, 'none', [])).toEqual([]);
});

test('one number for all layers, or one for each', () => {
  expect(getNumberPerLayer(gguf, 'n', 3)).toEqual([7, 7, 7]);
  expect(getNumberPerLayer(gguf, 'heads', 3)).toEqual([8, 4, 2]);
  expect(getNumberPerLayer(gguf, 'none', 2, 1)).toEqual([1, 1]);
  expect(() => getNumberPerLayer(gguf, 'heads', 4)).toThrow(/"heads" has 3 numbers; expected one for each of 4 layers/);
  expect(() => getNumberPerLayer(gguf, 'none', 4)).toThrow(expect.objectContaining({ code: 'ERR_MISSING_METADATA' }));
});

describe('errors', () => {
  test.each<[string, () => unknown, string, RegExp]>([
    ['missing', () => getNumber(gguf, 'llama.block_count'), 'ERR_MISSING_METADATA', /no "llama.block_count"; expected a number/],
    ['text for a number', () => getNumber(gguf, 'general.architecture'), 'ERR_GGUF_INVALID', /is "llama"; expected a number/],
    ['beyond 2^53', () => getNumber(gguf, 'big'), 'ERR_GGUF_INVALID', /is the bigint 9223372036854775808; expected a number/],
    ['fraction for a count', () => getCount(gguf, 'x'), 'ERR_GGUF_INVALID', /is the number 0.5; expected a whole number from 0/],
    [
      'count out of range',
      () => getCount(gguf, 'n', undefined, 8, 9),
      'ERR_GGUF_INVALID',
      /is the number 7; expected a whole number from 8 to 9/,
    ],
    ['number for a bool', () => getBool(gguf, 'n', true), 'ERR_GGUF_INVALID', /is the number 7; expected a bool/],
    ['array for text', () => getString(gguf, 'tokens'), 'ERR_GGUF_INVALID', /is an array of 2; expected a string/],
    ['numbers for strings', () => getStrings(gguf, 'scores'), 'ERR_GGUF_INVALID', /is an array of 2; expected an array of strings/],
    ['strings for numbers', () => getNumbers(gguf, 'tokens'), 'ERR_GGUF_INVALID', /is an array of 2; expected an array of numbers/],
    ['inexact numbers', () => getNumbers(gguf, 'huge'), 'ERR_GGUF_INVALID', /is an array of 1; expected an array of numbers/],
  ])('%s', (_, read, code, message) => {
    expect(read).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));
  });
});
