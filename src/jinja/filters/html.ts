/** Filters for HTML. */
import { absent, flag, fn, int } from '../args.ts';
import { escaped, escapeText, iterate, refuse } from '../operators.ts';
import { repr, str } from '../repr.ts';
import { split } from '../text-methods.ts';
import { Dict, JinjaError, Markup, Undefined, type Value, type Runtime, type Table } from '../values.ts';

/**
 * Removes text between two marks, and the marks, including marks that a removal brings together.
 */
function without(runtime: Runtime, value: string, open: string, close: string): string {
  let text = value;
  for (let from = 0; ;) {
    const start = text.indexOf(open, from);
    const end = start < 0 ? -1 : text.indexOf(close, start);
    if (end < 0) return text;
    runtime.read(text.length);
    text = text.slice(0, start) + text.slice(end + close.length);
    from = Math.max(0, start - open.length + 1);
  }
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

function unescape(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]+));/g, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return Object.hasOwn(named, name) ? named[name] : whole;
    const code = decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal);
    return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? '\ufffd' : String.fromCodePoint(code);
  });
}

function xmlAttributes(runtime: Runtime, value: Value, autospace?: Value): string {
  if (!(value instanceof Dict)) throw refuse('xmlattr wants a dictionary, not', value);
  const parts: string[] = [];
  for (const [key, item] of value.entries()) {
    if (item === null || item instanceof Undefined) continue;
    if (/[\s/>=]/.test(str(runtime, key))) throw new JinjaError(`Invalid character in attribute name: ${repr(runtime, key)}`);
    parts.push(`${escaped(runtime, key)}="${escaped(runtime, item)}"`);
  }
  return (parts.length > 0 && flag(autospace, true) ? ' ' : '') + parts.join(' ');
}

const link =
  /^((https?:\/\/|www\.)(([\p{L}\p{N}_%-]+\.)+)?([a-z]{2,63}|xn--[\p{L}\p{N}_%]{2,59})|([\p{L}\p{N}_%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)|(https?:\/\/)((\d{1,3}(\.\d{1,3}){3})|(\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}\])))(?::\d{1,5})?(?:[/?#]\S*)?$/iu;
const email = /^\S+@[\p{L}\p{N}_][\p{L}\p{N}_.-]*\.[\p{L}\p{N}_]+$/u;
/** Longer words are not made links: the patterns take time quadratic in the length of a word. */
const MAX_WORD = 2000;

interface Linking {
  readonly most: number;
  readonly attributes: string;
  readonly schemes: readonly string[];
}

function linked(word: string, { most, attributes, schemes }: Linking): string {
  const shown = (text: string): string => (text.length > most ? `${text.slice(0, most)}...` : text);
  if (link.test(word)) {
    const url = /^https?:\/\//.test(word) ? word : `https://${word}`;
    return `<a href="${url}"${attributes}>${shown(word)}</a>`;
  }
  if (word.startsWith('mailto:') && email.test(word.slice(7))) return `<a href="${word}">${word.slice(7)}</a>`;
  if (word.includes('@') && !word.startsWith('www.') && !word.startsWith('@') && !word.includes(':') && email.test(word))
    return `<a href="mailto:${word}">${word}</a>`;
  const scheme = schemes.find((one) => word !== one && word.startsWith(one));
  return scheme === undefined ? word : `<a href="${word}"${attributes}>${word}</a>`;
}

const pairs = [
  ['(', ')'],
  ['<', '>'],
  ['&lt;', '&gt;'],
] as const;
const countOf = (text: string, part: string): number => text.split(part).length - 1;

/** Turns a word into a link, leaving the punctuation around it outside. */
function linkedWord(word: string, linking: Linking): string {
  if (word.length > MAX_WORD) return word;
  const head = /^(?:[(<]|&lt;)*/.exec(word)![0];
  let middle = word.slice(head.length);
  let tail = /(?:[)>.,\n]|&gt;)*$/.exec(middle)![0];
  middle = middle.slice(0, middle.length - tail.length);
  for (const [open, close] of pairs) {
    const missing = countOf(middle, open) <= countOf(middle, close) ? 0 : Math.min(countOf(middle, open), countOf(tail, close));
    for (let i = 0; i < missing; i++) {
      const end = tail.indexOf(close) + close.length;
      middle += tail.slice(0, end);
      tail = tail.slice(end);
    }
  }
  return head + linked(middle, linking) + tail;
}

function urlize(runtime: Runtime, value: Value, most?: Value, nofollow?: Value, target?: Value, rel?: Value, extra?: Value): string {
  const schemes = absent(extra) ? [] : Array.from(iterate(runtime, extra), (scheme) => str(runtime, scheme));
  const odd = schemes.find((scheme) => !/^[\p{L}\p{N}_.+-]{2,}:\/{0,2}$/u.test(scheme));
  if (odd !== undefined) throw new JinjaError(`'${odd}' is not a valid URI scheme prefix.`);
  const words = new Set([
    ...(absent(rel) ? [] : split(str(runtime, rel), undefined, -1)),
    ...(flag(nofollow) ? ['nofollow'] : []),
    'noopener',
  ]);
  const to = absent(target) || target === '' ? '' : ` target="${escapeText(str(runtime, target))}"`;
  const attributes = ` rel="${escapeText([...words].sort().join(' '))}"${to}`;
  const linking = { most: absent(most) ? Infinity : int(most, 0), attributes, schemes };
  return escaped(runtime, value)
    .split(/(\s+)/)
    .map((word) => linkedWord(word, linking))
    .join('');
}

const escape = fn('', (runtime, value: Value) => new Markup(escaped(runtime, value)));

export const htmlFilters: Table = {
  e: escape,
  escape,
  forceescape: fn('', (runtime, value: Value) => new Markup(escapeText(str(runtime, value)))),
  safe: fn('', (runtime, value: Value) => new Markup(str(runtime, value))),
  striptags: fn('', (runtime, value: Value) => {
    const bare = without(runtime, without(runtime, str(runtime, value), '<!--', '-->'), '<', '>');
    return unescape(split(bare, undefined, -1).join(' '));
  }),
  urlize: fn('trim_url_limit? nofollow? target? rel? extra_schemes?', urlize),
  xmlattr: fn('autospace?', xmlAttributes),
};
