/**
 * Model output as HTML: Markdown by marked, code colours by highlight.js, formulas by math.ts, and
 * everything sanitised by DOMPurify.
 */
import DOMPurify from 'dompurify';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import cpp from 'highlight.js/lib/languages/cpp';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { Marked, type Token, type Tokens } from 'marked';
import { escaped } from './html.ts';
import { MATH_ATTRIBUTES, MATH_TAGS, math, withoutStyle } from './math.ts';

for (const [name, language] of Object.entries({ bash, cpp, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml }))
  hljs.registerLanguage(name, language);
// C has no grammar of its own here; that of C++ is close enough.
hljs.registerAliases(['c', 'h'], { languageName: 'cpp' });

/** Longest code that is coloured, because a growing answer is coloured again in every frame. */
const MOST_COLOURED = 20_000;

/** Code as HTML, coloured if its language is known. */
export function codeHtml(code: string, language: string): string {
  if (code.length > MOST_COLOURED || !hljs.getLanguage(language)) return escaped(code);
  return purify(hljs.highlight(code, { language, ignoreIllegals: true }).value);
}

/** The first word after the fence: "python title=x" is Python. */
export const languageOf = ({ lang = '' }: Tokens.Code): string =>
  lang
    .trim()
    .split(/[\s,{:]/)[0]
    .toLowerCase();

const marked = new Marked({
  gfm: true,
  // A single line end is a line break, as in a poem.
  breaks: true,
  renderer: {
    // HTML tags are shown as text, never interpreted.
    html: ({ text }) => escaped(text),
    // An image would send a request to another host, so it becomes a link.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    code: (token) => `<pre><code>${codeHtml(token.text, languageOf(token))}</code></pre>`,
    table({ header, rows, align }) {
      const cell = (tag: string, i: number, tokens: Token[]): string =>
        `<${tag}${align[i] ? ` align="${align[i]}"` : ''}>${this.parser.parseInline(tokens)}</${tag}>`;
      const row = (tag: string, cells: Tokens.TableCell[]): string =>
        `<tr>${cells.map((one, i) => cell(tag, i, one.tokens)).join('')}</tr>`;
      // Wide tables scroll separately, also by keyboard.
      return `<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead>${row('th', header)}</thead><tbody>${rows.map((cells) => row('td', cells)).join('')}</tbody></table></div>`;
    },
  },
});

const TAGS = 'a b blockquote br code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td th thead tr u ul';

marked.use(math);

DOMPurify.addHook('beforeSanitizeAttributes', withoutStyle);
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer');
});

const purify = (html: string): string =>
  DOMPurify.sanitize(html, {
    ALLOWED_TAGS: `${TAGS} ${MATH_TAGS}`.split(' '),
    ALLOWED_ATTR: ['href', 'title', 'class', 'align', 'start', 'tabindex', 'role', 'aria-label', ...MATH_ATTRIBUTES.split(' ')],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    // These attributes never contain addresses; DOMPurify treats unknown attributes as if they did.
    ADD_URI_SAFE_ATTR: ['align', 'start', 'tabindex', 'aria-label', ...MATH_ATTRIBUTES.split(' ')],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });

/**
 * A top-level block of a text, such as a paragraph, a list or a table, as HTML. Code is separate,
 * because it is shown with a head.
 */
export type Block =
  | { readonly type: 'html'; readonly raw: string; readonly html: string }
  | { readonly type: 'code'; readonly raw: string; readonly code: string; readonly language: string; readonly html: string };

function blockOf(token: Token): Block {
  if (token.type === 'code') {
    const { raw, text } = token as Tokens.Code;
    const language = languageOf(token as Tokens.Code);
    return { type: 'code', raw, code: text, language, html: codeHtml(text, language) };
  }
  return { type: 'html', raw: token.raw, html: purify(marked.parser([token])) };
}

/**
 * Splits a text into blocks. While a text grows, all but the last few blocks of `before` are reused
 * as the same objects, so that they are not parsed, sanitised or drawn again. Appended text can
 * change the last block, or join it to the one before (a list after a blank line), but no earlier
 * block.
 */
export function blocksOf(text: string, before: readonly Block[] = []): readonly Block[] {
  const kept: Block[] = [];
  let at = 0;
  for (const block of before.slice(0, -4)) {
    if (!text.startsWith(block.raw, at)) break;
    kept.push(block);
    at += block.raw.length;
  }
  const rest = marked.lexer(text.slice(at));
  return [
    ...kept,
    ...rest
      .filter(({ raw }) => raw !== '')
      .map((token, i) => {
        const old = before[kept.length + i];
        return old?.raw === token.raw ? old : blockOf(token);
      }),
  ];
}
