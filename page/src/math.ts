/** Formulas in what models write: where they begin and end. What typesets them is loaded by the page that has it, with the first formula. */
import { signal } from '@preact/signals';
import type { MarkedExtension, TokenizerAndRendererExtension, Tokens } from 'marked';
import { escaped } from './html.ts';

/** TeX as MathML. @throws where it is not TeX that can be typeset */
export type Typeset = (tex: string, display: boolean) => string;

/** Undefined: nothing typesets yet, or in this page at all; formulas stay TeX. */
export const typeset = signal<Typeset | undefined>(undefined);

let load: (() => Promise<Typeset>) | undefined;
/** What loads a typesetter once there is a formula. */
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
    // Wide formulas scroll by themselves, also by keyboard.
    if (typeset.value)
      return `<${tag} class="math"${tag === 'div' ? ' tabindex="0" role="group" aria-label="Formula"' : ''}>${typeset.value(tex, display)}</${tag}>`;
  } catch {
    // As it was written; while it is being written, this is how most begin.
  }
  return `<${tag} class="tex">${escaped(raw.trim())}</${tag}>`;
}

/** Whether `$...$` is a formula: prices, shell variables and the sentence between two of them are not. */
export function isFormula(tex: string, next: string): boolean {
  if (/^\s|\s$/.test(tex) || /^[\p{L}\p{N}]/u.test(next)) return false;
  return /[\\^_={}]/.test(tex) || !/\s/.test(tex) || !/\p{L}{3,}/u.test(tex);
}

const token = (type: string, raw: string, tex: string, display: boolean): MathToken | undefined =>
  tex.trim() === '' ? undefined : { type, raw, tex: tex.trim(), display };

/**
 * A paragraph of its own: `$$...$$` or `\[...\]`, without an empty line; the last one of a text may still be without its end. Of 5000 characters at most:
 * while a formula is written, it is typeset again at every frame, and openings without an end must not each be searched to the end of a text.
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

/** What DOMPurify lets through of MathML, beside what it lets through of HTML. */
export const MATH_TAGS =
  'math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none';
export const MATH_ATTRIBUTES =
  'accent accentunder columnalign depth display displaystyle fence form height largeop linethickness lspace mathcolor mathvariant maxsize minsize movablelimits notation rspace scriptlevel separator stretchy symmetric voffset width';

/** The page's policy allows no styles at elements: of those that a typesetter writes, colours and frames become what the style sheet knows. */
export function withoutStyle(node: Element): void {
  if (node.namespaceURI !== 'http://www.w3.org/1998/Math/MathML') return;
  const style = node.getAttribute('style') ?? '';
  const [, color] = /(?:^|;)color:(#[\da-f]{3,8}|[a-z]+)(?:;|$)/i.exec(style) ?? [];
  if (color !== undefined) node.setAttribute('mathcolor', color);
  if (/(?:^|;)border:/.test(style)) node.classList.add('framed');
}
