/**
 * Whole templates, our own and those of real models, compared with jinja2's output
 * (../golden/chat/renderings.json).
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileJinja } from '../../src/chat/jinja.ts';
import { root } from '../support.ts';
import { everyTemplate } from './templates.ts';

const { renderings } = (await import(new URL('test/golden/chat/renderings.mjs', root).href)) as { renderings: Record<string, object[]> };
const hashes = JSON.parse(readFileSync(new URL('test/golden/chat/renderings.json', root), 'utf8')) as Record<
  string,
  Record<string, string>
>;
const now = (): Date => new Date('2025-03-04T15:06:07.089');

describe.each(everyTemplate.map(([name, source]) => [name.replace(/\.jinja$/, ''), source] as const))('%s', (name, source) => {
  const compiled = compileJinja(source, now);
  const rendered = (variables: object): string | null => {
    try {
      return compiled(variables as Record<string, unknown>);
    } catch {
      return null;
    }
  };

  it.each(Object.keys(renderings))('%s', (conversation) => {
    const texts = JSON.stringify(renderings[conversation].map(rendered));
    expect(createHash('sha256').update(texts).digest('hex').slice(0, 12), texts.slice(0, 500)).toBe(hashes[name][conversation]);
  });
});
