/** The list of `npm run test:quick` names tests that exist. */
import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { SLOW } from './quick.ts';
import { root } from './support.ts';

/**
 * Paths that a pattern names: the files a and b for test/folder/!(a|b).test.ts, or the folder if
 * the pattern is for all of its files.
 */
function named(pattern: string): readonly string[] {
  const [, folder, names] = /^(.*)\/!\((.*)\)\.test\.ts$/.exec(pattern) ?? [];
  return folder === undefined ? [pattern.replace('/**', '')] : names.split('|').map((name) => `${folder}/${name}.test.ts`);
}

it.each(SLOW)('$why', ({ files }) => {
  expect(files.flatMap(named).filter((file) => !existsSync(new URL(file, root)))).toEqual([]);
});
