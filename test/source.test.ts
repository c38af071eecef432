import { describe, expect, test } from 'vitest';
import { QuantletError } from '../src/errors.ts';
import type { SourceLike } from '../src/io/source.ts';
import { toBytes } from '../src/io/source.ts';

const data = Uint8Array.from({ length: 100 }, (_, i) => i);
const sharedCopy = (): SharedArrayBuffer => {
  const shared = new SharedArrayBuffer(data.length);
  new Uint8Array(shared).set(data);
  return shared;
};

/** Code and message of a rejection that must be a QuantletError. */
const failure = async (promise: Promise<unknown>): Promise<QuantletError> => {
  const error = await promise.then(
    () => undefined,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(QuantletError);
  return error as QuantletError;
};

const slicing = (answer: (start: number, end: number) => unknown, byteLength = data.length): SourceLike => ({ byteLength, slice: answer });

describe('every kind of source gives the same bytes', () => {
  const sources: Record<string, () => SourceLike> = {
    Blob: () => new Blob([data]),
    ArrayBuffer: () => data.slice().buffer,
    SharedArrayBuffer: sharedCopy,
    Uint8Array: () => data,
    'Uint8Array inside a larger buffer': () => Uint8Array.from([9, 9, 9, ...data, 9]).subarray(3, 103),
    DataView: () => new DataView(data.buffer),
    'slice -> Uint8Array': () => slicing((a, b) => data.slice(a, b)),
    'slice -> ArrayBuffer': () => slicing((a, b) => data.slice(a, b).buffer),
    'slice -> Blob': () => slicing((a, b) => new Blob([data.slice(a, b)])),
    'slice -> promise': () => slicing(async (a, b) => data.slice(a, b)),
    'slice -> shared memory': () => slicing((a, b) => new Uint8Array(sharedCopy()).subarray(a, b)),
    'another Bytes': () => toBytes(data),
  };
  test.each(Object.entries(sources))('%s', async (_, make) => {
    const bytes = toBytes(make());
    expect(bytes.byteLength).toBe(100);
    for (const [start, end] of [
      [0, 100],
      [0, 0],
      [10, 37],
      [99, 100],
      [100, 100],
    ]) {
      const got = await bytes.read(start, end);
      expect(Array.from(got)).toEqual(Array.from(data.subarray(start, end)));
      expect(got.buffer).toBeInstanceOf(ArrayBuffer);
    }
  });

  test('bytes in memory are not copied', async () => {
    expect((await toBytes(data).read(5, 9)).buffer).toBe(data.buffer);
  });
});

describe('errors say what is wrong with a source', () => {
  test.each<[string, SourceLike, RegExp]>([
    ['short answer', slicing((a, b) => data.slice(a, b - 3)), /gave 7 bytes for 0 to 10; expected 10/],
    ['long answer', slicing(() => data), /gave 100 bytes for 0 to 10; expected 10/],
    ['wrong answer', slicing(() => 'text'), /gave string; expected a Uint8Array/],
    ['no answer', slicing(() => undefined), /gave undefined; expected/],
    ['failing answer', slicing(() => Promise.reject(new Error('the bucket is closed'))), /0 to 10 .* failed: the bucket is closed/],
  ])('%s', async (_, source, message) => {
    const error = await failure(toBytes(source).read(0, 10));
    expect(error.code).toBe('ERR_SOURCE');
    expect(error.message).toMatch(message);
  });

  test.each([
    [-1, 5],
    [0, 101],
    [7, 6],
    [0.5, 2],
    [NaN, 1],
  ])('range %d to %d', async (start, end) => {
    const error = await failure(toBytes(data).read(start, end));
    expect(error.code).toBe('ERR_SOURCE');
    expect(error.message).toContain('expected 0 <= start <= end <= 100');
  });

  test.each([-1, NaN, 1.5, Infinity])('byteLength %d', (byteLength) => {
    expect(() => toBytes(slicing((a, b) => data.slice(a, b), byteLength))).toThrow(/byteLength is .*; expected its size/);
  });

  test.each([undefined, null, 5, 'model.gguf', {}, { byteLength: 4 }, () => 0])('not a source: %s', (value) => {
    expect(() => toBytes(value as never)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});

describe('abort', () => {
  test('before and during a read, with the reason as the rejection', async () => {
    const reason = new Error('enough');
    await expect(toBytes(data).read(0, 1, AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const bytes = toBytes(
      slicing(async () => {
        controller.abort(reason);
        throw new Error('cut');
      }),
    );
    await expect(bytes.read(0, 1, controller.signal)).rejects.toBe(reason);
  });
});
