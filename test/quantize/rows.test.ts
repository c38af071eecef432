import { expect, test } from 'vitest';
import { checkRows, type Rows } from '../../src/threads/rows-node.ts';
import { TYPE } from '../../src/type-traits.ts';

/** Converts two rows of 256 f32 to q4_K. */
const rows = (more: Partial<Rows> = {}): Rows => ({
  from: TYPE.f32,
  to: TYPE.q4_K,
  ne0: 256,
  nrows: 2,
  data: new Uint8Array(2048),
  ...more,
});

test('rows that are whole blocks pass', () => {
  expect(() => checkRows(rows())).not.toThrow();
  expect(() => checkRows(rows({ nrows: 0, data: new Uint8Array(0) }))).not.toThrow();
  expect(() => checkRows(rows({ to: TYPE.iq2_xs, imatrix: new Float32Array(256) }))).not.toThrow();
  expect(() => checkRows(rows({ to: TYPE.iq3_s }))).not.toThrow();
  expect(() => checkRows(rows({ from: TYPE.iq2_xs, data: new Uint8Array(148), imatrix: new Float32Array(256) }))).not.toThrow();
});

test.each<[string, Partial<Rows>, RegExp]>([
  [
    'rows of no whole blocks of the new type',
    { ne0: 128, nrows: 4 },
    /rows have 128 elements; expected a multiple of 256: q4_K is made of blocks of 256/,
  ],
  [
    'rows of no whole blocks of the old type',
    { from: TYPE.q8_0, to: TYPE.f16, ne0: 48, data: new Uint8Array(102) },
    /rows have 48 elements; expected a multiple of 32: q8_0/,
  ],
  ['one byte too few', { data: new Uint8Array(2047) }, /came as 2047 bytes; expected 2048 of f32/],
  ['weights for another length', { imatrix: new Float32Array(255) }, /there are 255 importance weights for rows of 256/],
  ['a type without a quantiser', { to: TYPE.i8 }, /cannot be quantised to i8; expected one of f32/],
  ['none where they are needed', { to: TYPE.iq2_xs }, /rows of iq2_xs need importance weights/],
  ['a type nobody reads', { from: TYPE.i32 }, /of type i32 cannot be read; expected one of f32/],
  ['half an element', { ne0: 0.5 }, /rows of 0.5 elements/],
  ['less than no rows', { nrows: -1 }, /-1 rows/],
])('%s is reported before any kernel runs', (_, more, message) => {
  expect(() => checkRows(rows(more))).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(message) }),
  );
});
