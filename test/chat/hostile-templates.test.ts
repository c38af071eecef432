/**
 * Untrusted templates: everything that they can make grow or repeat costs steps, and ends in an
 * error of the engine, never in a stack overflow.
 */
import { describe, expect, it } from 'vitest';
import { compileJinja, TemplateBudget } from '../../src/chat/jinja.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { parseTemplate } from '../../src/jinja/parser.ts';
import { render } from '../../src/jinja/render.ts';
import { Rendering } from '../../src/jinja/runtime.ts';
import { JinjaError } from '../../src/jinja/values.ts';
import { atOnce } from '../../src/slices.ts';

class Counting extends Rendering {
  steps = 0;
  override spend(steps: number): void {
    this.steps += steps;
    super.spend(steps);
  }
}

/** Number of steps that a template takes. */
function stepsOf(source: string): number {
  const rendering = new Counting(() => new Date(0), 0);
  atOnce(render(parseTemplate(source), rendering, []));
  return rendering.steps;
}

const EMOJI = "{% set t = '👋' * 100000 %}";
const LIST = '{% set l = range(10000) | list %}';
const DICT = "{% set d = dict(range(10000) | map('string') | batch(2)) %}";

describe('each time costs by the size of what it looks at or makes', () => {
  it.each<[string, string, string, number]>([
    ['indexing a wide text', EMOJI, '{% set x = t[99999] %}', 6000],
    ['indexing it from its end', EMOJI, '{% set x = t[-1] %}', 6000],
    ['slicing a wide text', EMOJI, '{% set x = t[1:99999] %}', 25_000],
    ['slicing it backwards', EMOJI, '{% set x = t[::-1] %}', 25_000],
    ['comparing wide texts', EMOJI, '{% set x = t < t %}', 12_000],
    ['the length of a wide text', EMOJI, '{% set x = t | length %}', 6000],
    ['a text in a text', EMOJI, "{% set x = 'a' in t %}", 6000],
    ['replace', EMOJI, "{% set x = t.replace('👋', '👋👋') %}", 12_000],
    ['upper', EMOJI, '{% set x = t.upper() %}', 6000],
    ['~', EMOJI, '{% set x = t ~ t %}', 12_000],
    ['* of a text', '', "{% set x = 'ab' * 100000 %}", 6000],
    ['* of a list', LIST, '{% set x = l * 10 %}', 25_000],
    ['+ of lists', LIST, '{% set x = l + l %}', 5000],
    ['== of lists', LIST, '{% set x = l == l + [] %}', 2500],
    ['range', '', '{% set x = range(10000) | list %}', 10_000],
    ['join', LIST, "{% set x = l | join(', ') %}", 10_000],
    ['dict.copy', DICT, '{% set x = d.copy() %}', 40_000],
    ['dict.items', DICT, '{% set x = d.items() | list %}', 5000],
    ['tojson', LIST, '{% set x = l | tojson %}', 10_000],
    ['sort', LIST, '{% set x = l | sort %}', 10_000],
    ['a loop', LIST, '{% for x in l %}{% endfor %}', 10_000],
    ['namespace', "{% set ns = namespace(t='ab' * 100000) %}", '{% set ns.t = ns.t ~ ns.t %}', 18_000],
  ])('%s', (_, before, once, least) => {
    const cost = stepsOf(before + once) - stepsOf(before);
    expect(cost).toBeGreaterThanOrEqual(least);
  });
});

const again = (n: number, body: string): string => `{% for i in range(${n}) %}${body}{% endfor %}`;
describe('what would take for ever ends as too many steps', () => {
  it.each<[string, string]>([
    ['a wide text by its characters', EMOJI + again(100_000, '{% set x = t[i] %}')],
    ['its slices', EMOJI + again(100_000, '{% set x = t[i:] %}')],
    ['its order', EMOJI + again(100_000, '{% set x = t < t ~ i %}')],
    ['dict.copy', DICT + again(100_000, '{% set x = d.copy() %}')],
    ['a list of lists', '{% set ns = namespace(l=[1]) %}' + again(100, '{% set ns.l = ns.l + ns.l %}')],
    ['a text that doubles', "{% set ns = namespace(t='a') %}" + again(100, '{% set ns.t = ns.t ~ ns.t %}')],
    ['loops in loops', again(100_000, again(100_000, 'a'))],
    ['ranges', again(100_000, '{% set x = range(100000) | list %}')],
    ['replace', "{% set t = 'a' * 1000000 %}{{ t | replace('a', t) }}"],
    ['join', "{% set t = 'a' * 1000000 %}{{ range(100000) | join(t) }}"],
    ['macros that call twice', '{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}'],
    ['a tree of itself as JSON', '{% set ns = namespace(a=[1]) %}' + again(40, '{% set ns.a = [ns.a, ns.a] %}') + '{{ ns.a | tojson }}'],
  ])('%s', (_, source) => expect(() => compileJinja(source)({})).toThrow(TemplateBudget));

  it.each<[string, string]>([
    ['a text', "{{ 'ab' * 10 ** 9 }}"],
    ['a list', '{{ [1] * 10 ** 8 }}'],
    ['an indentation', "{{ 'a' | indent(10 ** 9) }}"],
    ['a width', "{{ '%999999999d' % 1 }}"],
    ['a range', '{{ range(10 ** 12) | list }}'],
    ['a number', '{{ 9 ** 99999 }}'],
  ])('%s made of a number is refused', (_, source) => expect(() => compileJinja(source)({})).toThrow(/more than|limit/));
});

describe('depth has a limit of its own', () => {
  const nested = (n: number, open: string, close: string): string => `{{ ${open.repeat(n)}1${close.repeat(n)} }}`;
  it.each<[string, string]>([
    ['macros', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}'],
    ['callers', '{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}'],
    ['recursive loops', '{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}'],
    ['parentheses', nested(100_000, '(', ')')],
    ['blocks', '{% if 1 %}'.repeat(50_000) + '{% endif %}'.repeat(50_000)],
    ['lists in lists', '{% set ns = namespace(l=[]) %}' + again(100_000, '{% set ns.l = [ns.l] %}') + '{{ ns.l }}'],
  ])('%s', (_, source) => {
    expect(() => compileJinja(source)({})).toThrow(/deep/);
    expect(() => compileJinja(source)({})).toThrow(JinjaError);
  });

  it('macros 150 deep are written', () => {
    const source = '{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(150) }}';
    expect(compileJinja(source)({})).toMatch(/^150149/);
  });

  it('and a code where a conversation is written', () => {
    const deep = '{% macro m() %}{{ m() }}{% endmacro %}{{ messages[0].content }}{% if messages[0].content == "go" %}{{ m() }}{% endif %}';
    const template = createChatTemplate(deep);
    expect(() => template.render({ messages: [{ role: 'user', content: 'go' }] })).toThrow(
      expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE', message: expect.stringMatching(/200 deep/) }),
    );
    expect(template.render({ messages: [{ role: 'user', content: 'stay' }] })).toBe('stay');
  });
});
