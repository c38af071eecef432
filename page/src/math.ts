/**
 * Finds formulas in model output. The page supplies the typesetter, which is loaded with the first
 * formula.
 */
import { signal } from '@preact/signals';
import type { MarkedExtension, TokenizerAndRendererExtension, Tokens } from 'marked';
import { escaped } from './html.ts';

/**
 * Converts TeX to MathML.
 * @throws if the TeX cannot be typeset
 */
export type Typeset = (tex: string, display: boolean) => string;

/** Undefined: no typesetter is loaded or available, and formulas are shown as TeX. */
export const typeset = signal<Typeset | undefined>(undefined);

let load: (() => Promise<Typeset>) | undefined;
/** Sets the function that loads the typesetter when the first formula appears. */
export function typesetBy(loads: () => Promise<Typeset>): void {
  load = loads;
}

function loadOnce(): void {
  const loads = load;
  load = undefined;
  void loads?.().then(
    (loaded) => (typeset.value = loaded),
    () => (load = loads), // without a network the next formula tries again
  );
}

interface MathToken extends Tokens.Generic {
  readonly tex: string;
  readonly display: boolean;
}

function html(token: Tokens.Generic): string {
  const { raw, tex, display } = token as MathToken;
  loadOnce();
  const tag = token.type === 'mathBlock' ? 'div' : 'span';
  try {
    // Wide formulas scroll separately, also by keyboard.
    if (typeset.value)
      return `<${tag} class="math"${tag === 'div' ? ' tabindex="0" role="group" aria-label="Formula"' : ''}>${typeset.value(tex, display)}</${tag}>`;
  } catch {
    // Shown as TeX below. Most formulas begin like this while they are still being written.
  }
  return `<${tag} class="tex">${escaped(raw.trim())}</${tag}>`;
}

/**
 * Tells a formula in `$...$` from prices, shell variables and the text between two of them.
 * @param next the text after the closing `$`
 */
export function isFormula(tex: string, next: string): boolean {
  if (/^\s|\s$/.test(tex) || /^[\p{L}\p{N}]/u.test(next)) return false;
  return /[\\^_={}]/.test(tex) || !/\s/.test(tex) || !/\p{L}{3,}/u.test(tex);
}

const token = (type: string, raw: string, tex: string, display: boolean): MathToken | undefined =>
  tex.trim() === '' ? undefined : { type, raw, tex: tex.trim(), display };

/**
 * A display formula in a paragraph of its own: `$$...$$` or `\[...\]` without an empty line. The
 * last formula of a growing text may still lack its end. At most 5000 characters, because a formula
 * that is being written is typeset in every frame, and because openings without an end must not
 * each be searched to the end of the text.
 */
const BLOCK =
  /^ {0,3}(?:\$\$((?:(?!\$\$|\n[ \t]*\n)[^]){1,5000}?)\$\$|\\\[((?:\\\\|(?!\\[\\[\]]|\n[ \t]*\n)[^]){1,5000}?)\\\])[ \t]*(?:\n+|$)/;
const OPEN_BLOCK = /^ {0,3}(?:\$\$[ \t]*\n|\\\[)((?:\\\\|(?!\$\$|\\[\\[\]]|\n[ \t]*\n)[^]){0,5000})$/;
const block: TokenizerAndRendererExtension = {
  name: 'mathBlock',
  level: 'block',
  start(src) {
    const index = /\n {0,3}(?:\$\$|\\\[)/.exec(src)?.index;
    return index === undefined ? undefined : index + 1;
  },
  tokenizer(src) {
    const [raw, dollars, brackets] = BLOCK.exec(src) ?? [];
    if (raw !== undefined) return token('mathBlock', raw, dollars ?? brackets, true);
    const [open, tex] = OPEN_BLOCK.exec(src) ?? [];
    return open === undefined ? undefined : token('mathBlock', open, tex, true);
  },
  renderer: html,
};

const INLINE =
  /^(?:\$\$((?:\\[^]|[^\\$]){1,5000}?)\$\$|\$((?:\\[^\n]|[^\\$\n]){1,5000}?)\$(?!\$)|\\\(((?:\\\\|(?!\\[\\()])[^]){1,5000}?)\\\)|\\\[((?:\\\\|(?!\\[\\[\]])[^]){1,5000}?)\\\])/;
const inline: TokenizerAndRendererExtension = {
  name: 'mathInline',
  level: 'inline',
  start: (src) => /\$|\\[([]/.exec(src)?.index,
  tokenizer(src) {
    const [raw, dollars, dollar, parens, brackets] = INLINE.exec(src) ?? [];
    if (raw === undefined || (dollar !== undefined && !isFormula(dollar, src.slice(raw.length)))) return undefined;
    return token('mathInline', raw, dollars ?? dollar ?? parens ?? brackets, (dollars ?? brackets) !== undefined);
  },
  renderer: html,
};

export const math: MarkedExtension = { extensions: [block, inline] };

/** MathML elements and attributes that DOMPurify lets through, in addition to HTML. */
export const MATH_TAGS =
  'math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none';
export const MATH_ATTRIBUTES =
  'accent accentunder columnalign depth display displaystyle fence form height largeop linethickness lspace mathcolor mathvariant maxsize minsize movablelimits notation rspace scriptlevel separator stretchy symmetric voffset width';

/**
 * Replaces style attributes in MathML, because the page's content security policy forbids them.
 * Colours become `mathcolor`, borders a class of the style sheet.
 */
export function withoutStyle(node: Element): void {
  if (node.namespaceURI !== 'http://www.w3.org/1998/Math/MathML') return;
  const style = node.getAttribute('style') ?? '';
  const [, color] = /(?:^|;)color:(#[\da-f]{3,8}|[a-z]+)(?:;|$)/i.exec(style) ?? [];
  if (color !== undefined) node.setAttribute('mathcolor', color);
  if (/(?:^|;)border:/.test(style)) node.classList.add('framed');
}
