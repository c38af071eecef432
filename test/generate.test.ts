/**
 * Generated sources are the output of `npm run generate`, and the table of types has a row for
 * each.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { errorCodes } from '../scripts/error-table.ts';
import { generate } from '../scripts/generate.ts';
import { TYPE } from '../src/type-traits.ts';
import { root } from './support.ts';

it.each([...(await generate())])('%s is what `npm run generate` writes', (path, text) =>
  expect(readFileSync(new URL(path, root), 'utf8')).toBe(text),
);

it('every error code has a meaning', () => {
  const codes = errorCodes(readFileSync(new URL('src/errors.ts', root), 'utf8'));
  expect(codes.length).toBeGreaterThan(25);
  for (const [code, meaning] of codes) expect(meaning, code).toMatch(/^[A-Z].{30,}\.$/);
  expect(() => errorCodes("export type QuantletErrorCode =\n  /** A. B. */\n  | 'ERR_A'\n  | 'ERR_B';")).toThrow('ERR_B has no comment');
});

describe('the table of types', () => {
  it('has each id once, and each row under its name', () => {
    expect(Object.values(TYPE).map((t) => t.name)).toEqual(Object.keys(TYPE));
    expect(new Set(Object.values(TYPE).map((t) => t.id)).size).toBe(Object.keys(TYPE).length);
  });
});
