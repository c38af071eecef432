/** The template engine compared with jinja2's output (../golden/chat/jinja2.json). */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileJinja } from '../../src/chat/jinja.ts';
import { root } from '../support.ts';

const golden = JSON.parse(readFileSync(new URL('test/golden/chat/jinja2.json', root), 'utf8')) as {
  now: string;
  variables: Record<string, unknown>;
  cases: Record<string, [template: string, output: string | null][]>;
};
const now = new Date(golden.now);

const lists = 'what Python has generators and views for are lists in llama.cpp, and templates made for it rely on that';
/** Intended differences, and their reasons. */
const otherwise: Readonly<Record<string, [output: string, why: string]>> = {
  "{{ [] | attr('append') is defined }}": [
    'True',
    'Kimi K2 keeps a queue in a list: append() and pop() of lists are there, as in llama.cpp',
  ],
  "{{ ('<' | e) + '<' }}": ['&lt;<', 'Functionary writes `safe` and means text: as in llama.cpp, nothing is escaped unasked'],
  "{{ numbers | map('string') | length }}": ['3', lists],
  "{{ numbers | map('string') | tojson }}": ['["3", "1", "2"]', lists],
  '{{ range(3) | tojson }}': ['[0, 1, 2]', lists],
  '{{ d.items() | tojson }}': ['[["b", 2], ["A", 1], ["c", null], ["items", "mine"]]', lists],
};

const render = (template: string): string | null => {
  try {
    return compileJinja(template, () => now)(golden.variables);
  } catch {
    return null;
  }
};

describe.each(Object.entries(golden.cases))('%s', (_, cases) => {
  it.each(cases)('%s', (template, output) => {
    const want = Object.hasOwn(otherwise, template) ? otherwise[template][0] : output;
    expect(render(template)).toBe(want);
  });
});

it('what is otherwise here is in the data, and is otherwise', () => {
  const all = new Map(Object.values(golden.cases).flat());
  for (const [template, [output]] of Object.entries(otherwise)) expect([all.has(template), all.get(template)]).not.toEqual([true, output]);
});
