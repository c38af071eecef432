/**
 * Formulas of the served page: the output of its own typesetter for what models write, and what it
 * refuses.
 */
import { describe, expect, it } from 'vitest';
import temml from 'temml';
import { typeset } from '../../page/src/small-tex.ts';

const inner = (tex: string, display = false): string => typeset(tex, display).replace(/^<math[^>]*>|<\/math>$/g, '');
const words = (mathml: string): string => mathml.replace(/<annotation[^]*?<\/annotation>|<[^>]*>|[\u2061-\u2064\u00a0\s]/g, '');

it.each([
  ['x', '<mi>x</mi>'],
  ['x^23', '<mrow><msup><mi>x</mi><mn>2</mn></msup><mn>3</mn></mrow>'],
  ['x_i^2', '<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>'],
  ["f'(x)", '<mrow><msup><mi>f</mi><mo>′</mo></msup><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)</mo></mrow>'],
  ['\\frac12', '<mfrac><mn>1</mn><mn>2</mn></mfrac>'],
  ['\\sqrt[3]{2}', '<mroot><mn>2</mn><mn>3</mn></mroot>'],
  ['\\mathbb{R}^n', '<msup><mi>ℝ</mi><mi>n</mi></msup>'],
  ['\\mathbf{A1}', '<mrow><mi>𝐀</mi><mn>𝟏</mn></mrow>'],
  ['\\text{a < b}', '<mtext>a &lt; b</mtext>'],
  ['\\sin x', '<mrow><mi>sin</mi><mspace width=".167em"></mspace><mi>x</mi></mrow>'],
  ['3.14', '<mn>3.14</mn>'],
])('%s', (tex, expected) => expect(inner(tex)).toBe(expected));

it('bounds are above and below in a display formula, at the side in a line', () => {
  expect(inner('\\sum_{i=0}^n', true)).toMatch(/^<munderover>/);
  expect(inner('\\sum_{i=0}^n')).toMatch(/^<msubsup>/);
  expect(inner('\\int_0^1', true)).toMatch(/^<msubsup>/);
  expect(inner('\\int\\limits_0^1', true)).toMatch(/^<munderover>/);
  expect(typeset('x', true)).toMatch(/^<math display="block">/);
});

describe("gives Temml's output", () => {
  it.each([
    'x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}',
    'e^{i\\pi} + 1 = 0',
    '\\begin{aligned} a_1 x &= b_1 \\\\ a_2 y &= b_2 \\end{aligned}',
    '\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}',
    'f(x) = \\begin{cases} 1 & x > 0 \\\\ 0 & \\text{otherwise} \\end{cases}',
    '\\sum_{i=0}^{n} i = \\frac{n(n+1)}{2}',
    '\\int_0^\\infty e^{-x^2} \\, dx = \\frac{\\sqrt{\\pi}}{2}',
    '\\lim_{x \\to 0} \\frac{\\sin x}{x} = 1',
    '\\nabla \\times \\mathbf{B} = \\mu_0 \\mathbf{J} + \\mu_0 \\varepsilon_0 \\frac{\\partial \\mathbf{E}}{\\partial t}',
    'P(A \\mid B) = \\frac{P(B \\mid A)\\,P(A)}{P(B)}',
    '\\left( \\frac{a}{b} \\right)^{n-1}',
    '\\forall \\epsilon > 0 \\; \\exists \\delta > 0',
    '\\hat{y} = \\sigma(W x + b)',
    '\\binom{n}{k} = \\frac{n!}{k!(n-k)!}',
    'A \\subseteq B \\iff A \\cap B = A',
    '\\underbrace{a + b}_{c}',
    '\\text{KL}(p \\| q) = \\sum_x p(x) \\log \\frac{p(x)}{q(x)}',
    '\\operatorname{softmax}(z)_i = \\frac{e^{z_i}}{\\sum_j e^{z_j}}',
    '\\mathcal{L}(\\theta) = -\\sum_{t} \\log p_\\theta(x_t \\mid x_{<t})',
    '\\begin{bmatrix} 1 & \\cdots & n \\\\[2pt] \\vdots & \\ddots & \\vdots \\end{bmatrix}',
    'a \\equiv b \\pmod{n}',
    '\\left\\| x \\right\\|_2 \\le \\lfloor y \\rfloor',
    '\\lambda_{\\max}',
    '50\\% \\text{ of } \\$5',
  ])('%s', (tex) => {
    const theirs = temml.renderToString(tex, { displayMode: true, throwOnError: true });
    expect(words(typeset(tex, true)).normalize('NFKC')).toBe(words(theirs).normalize('NFKC'));
  });
});

describe('is shown as source', () => {
  it.each([
    '\\frac{a',
    '\\frac{1}',
    '\\unknown{x}',
    '\\href{javascript:alert(1)}{x}',
    '\\includegraphics{https://example.org/a.png}',
    'a & b',
    'x_',
    'x}',
    '\\left( x',
    '\\begin{pmatrix} 1',
    '\\begin{pmatrix} 1 \\end{bmatrix}',
    '\\text{\\href{a}{b}}',
    '\\sqrt[3',
    '{'.repeat(5000),
    '\\frac'.repeat(1000),
  ])('%s', (tex) => expect(() => typeset(tex, false)).toThrow());

  it('and none of it becomes HTML', () => {
    for (const tex of ['\\text{<img src=x onerror=alert(1)>}', '<b>', '\\begin{array}{<i>} 1 \\end{array}', '\\operatorname{<i>"}'])
      expect(typeset(tex, false)).not.toMatch(/<(?!\/?(math|m[a-z]+)\b)/);
  });
});
