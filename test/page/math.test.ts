/**
 * Formulas in answers: what counts as a formula, and what Temml makes of it. Browsers check that
 * MathML is shown (test/runtime/checks/page.mjs).
 */
import { Marked } from 'marked';
import { afterEach, describe, expect, it } from 'vitest';
import temml from 'temml';
import { math, typeset, typesetBy } from '../../page/src/math.ts';

const marked = new Marked(math);
const html = (text: string): string => marked.parse(text, { async: false });
/** The formulas of a text. Those in paragraphs of their own are marked with a plus sign. */
const formulas = (text: string): string[] =>
  [...html(text).matchAll(/<(span|div) class="tex">([^<]*)</g)].map(([, tag, tex]) => (tag === 'div' ? `+${tex}` : tex));
afterEach(() => void (typeset.value = undefined));

describe('formulas', () => {
  it.each([
    ['Euler: $e^{i\\pi} + 1 = 0$.', ['$e^{i\\pi} + 1 = 0$']],
    ['for $x$ and $f(x)$, $n!$, $a, b$', ['$x$', '$f(x)$', '$n!$', '$a, b$']],
    ['$a_1 * b_2 * c$ is not emphasis', ['$a_1 * b_2 * c$']],
    ['\\(a < b\\) and \\[c\\] and $$d$$ here', ['\\(a &lt; b\\)', '\\[c\\]', '$$d$$']],
    ['$$\n\\frac{a}{b}\n$$', ['+$$\n\\frac{a}{b}\n$$']],
    ['So:\n\\[\nx = 1\n\\]\nand more', ['+\\[\nx = 1\n\\]']],
    ['1. First:\n\n   \\[ x^2 \\]\n\n2. Second: $y$', ['+\\[ x^2 \\]', '$y$']],
    ['| a |\n|---|\n| $x^2$ |', ['$x^2$']],
    ['**bold $x_1$**', ['$x_1$']],
    ['$\\$5 + x$', ['$\\$5 + x$']],
    ['\\[a \\\\[2pt] b\\]', ['+\\[a \\\\[2pt] b\\]']],
    ['in a$$x$$b line', ['$$x$$']],
    ['above\n$$x$$\nbelow', ['+$$x$$']],
  ])('%s', (text, expected) => expect(formulas(text)).toEqual(expected));

  it.each([
    'It costs $5 and $6.',
    'Between $5-$6, or US$5 and CA$6.',
    'From $100 million ($50 per unit) to $200.',
    'I paid $5, and you said it was 6$ too.',
    'Set $HOME/$USER and $PATH.',
    'A dollar is \\$1, two are \\$2.',
    'the code `$x$` and `\\(y\\)`',
    '```\n$x$\n$$\ny\n$$\n```',
    '    $x$',
    '$ x $ and $x $',
    'a lone $, a lone \\( and $$',
    '[link](https://example.org/$x$)',
  ])('%s: not a formula', (text) => expect(formulas(text)).toEqual([]));

  it('a formula that is being written is one from its beginning to its end', () => {
    const text = 'The mean:\n\n$$\n\\bar{x} = \\frac{1}{n}\n$$\n\nThat is it.';
    const begin = text.indexOf('$$') + 4;
    for (let end = begin; end <= text.length; end++) expect(formulas(text.slice(0, end)), text.slice(0, end)).toHaveLength(1);
    expect(formulas('$$\nnot closed\n\nanother paragraph')).toEqual([]);
  });

  it('openings without an end are skipped, however many there are', () => {
    for (const part of ['\\(', '\\[', '$', '$$', '$a ', '$$\n', '\\[\n', '\\(\\\\']) expect(formulas(part.repeat(3000)), part).toEqual([]);
  });
});

describe('typesetting', () => {
  const render = (tex: string, displayMode: boolean): string => temml.renderToString(tex, { displayMode, throwOnError: true });

  it('is loaded with the first formula, and again after a failure', async () => {
    let loads = 0;
    typesetBy(() => (loads++ === 0 ? Promise.reject(new Error('offline')) : Promise.resolve(render)));
    expect(html('no formula')).not.toContain('tex');
    expect(loads).toBe(0);
    html('$x$ and $y$');
    expect(loads).toBe(1);
    await new Promise((resolve) => setTimeout(resolve));
    html('$x$');
    await new Promise((resolve) => setTimeout(resolve));
    expect([loads, typeset.value]).toEqual([2, render]);
    expect(html('$x$')).toContain('<span class="math"><math><mi>x</mi></math></span>');
  });

  it('shows formulas that it cannot typeset as source', () => {
    typeset.value = render;
    expect(html('\\[ \\frac{a}{b} \\]')).toMatch(/^<div class="math" tabindex="0" role="group" aria-label="Formula"><math display="block"/);
    for (const tex of ['\\frac{a', '\\unknown{<b>}', '\\href{javascript:alert(1)}{x}', '\\includegraphics{https://example.org/a.png}'])
      expect(html(`a $${tex}$ b`)).toBe(`<p>a <span class="tex">$${tex.replace('<b>', '&lt;b&gt;')}$</span> b</p>\n`);
  });
});
