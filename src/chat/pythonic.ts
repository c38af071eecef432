/**
 * Readers of tool calls written as Python calls (LFM2, Llama 3's built-in tools) and in Gemma 4's
 * notation.
 */
import type { CallRead, CallReader, ParsedCall } from './calls.ts';

/**
 * A cursor in Python source. Halt is thrown with `more` if the text ends too early, `bad` if it is
 * not such source.
 */
interface Cursor {
  readonly text: string;
  at: number;
  /** Number of open lists and dictionaries. */
  depth: number;
}

/** Maximum nesting of literals: each level is a recursive call. */
const MAX_DEPTH = 200;

class Halt extends Error {
  readonly why: 'more' | 'bad';
  constructor(why: 'more' | 'bad') {
    super(why);
    this.why = why;
  }
}

function blank(c: Cursor): string {
  while (c.at < c.text.length && ' \n\r\t'.includes(c.text[c.at])) c.at++;
  if (c.at === c.text.length) throw new Halt('more');
  return c.text[c.at];
}

function eat(c: Cursor, char: string): boolean {
  if (blank(c) !== char) return false;
  c.at++;
  return true;
}

function expect(c: Cursor, char: string): void {
  if (!eat(c, char)) throw new Halt('bad');
}

function word(c: Cursor, pattern: RegExp): string {
  blank(c);
  const found = pattern.exec(c.text.slice(c.at, c.at + 256))?.[0] ?? '';
  if (c.at + found.length === c.text.length) throw new Halt('more');
  if (found === '') throw new Halt('bad');
  c.at += found.length;
  return found;
}

function stringLiteral(c: Cursor): string {
  const quote = c.text[c.at++];
  let out = '';
  for (; c.at < c.text.length; c.at++) {
    const char = c.text[c.at];
    if (char === quote) {
      c.at++;
      return out;
    }
    if (char !== '\\') out += char;
    else {
      const next = c.text[++c.at];
      const code = /^(?:x([\da-fA-F]{2})|u([\da-fA-F]{4}))/.exec(c.text.slice(c.at, c.at + 5));
      if (code) {
        out += String.fromCharCode(parseInt(code[1] ?? code[2], 16));
        c.at += code[0].length - 1;
      } else out += ({ n: '\n', t: '\t', r: '\r' } as Record<string, string>)[next] ?? next ?? '';
    }
  }
  throw new Halt('more');
}

/** A literal as JSON text. */
function literal(c: Cursor): string {
  const first = blank(c);
  if (first === '"' || first === "'") return JSON.stringify(stringLiteral(c));
  if (first === '[' || first === '(') return `[${items(c, first === '[' ? ']' : ')', () => literal(c))}]`;
  if (first === '{') {
    return `{${items(c, '}', () => {
      const key = literal(c);
      expect(c, ':');
      return `${key.startsWith('"') ? key : JSON.stringify(key)}: ${literal(c)}`;
    })}}`;
  }
  const token = word(c, /^[-+.\w]+/);
  const names: Readonly<Record<string, string>> = {
    True: 'true',
    False: 'false',
    None: 'null',
    true: 'true',
    false: 'false',
    null: 'null',
  };
  if (Object.hasOwn(names, token)) return names[token];
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(token)) throw new Halt('bad');
  return token;
}

/** Reads items up to `close`, starting at the opening bracket; returns them joined by commas. */
function items(c: Cursor, close: string, item: () => string): string {
  c.at++;
  if (++c.depth > MAX_DEPTH) throw new Halt('bad');
  const out: string[] = [];
  while (!eat(c, close)) {
    out.push(item());
    if (!eat(c, ',') && blank(c) !== close) throw new Halt('bad');
  }
  c.depth--;
  return out.join(', ');
}

function callOf(c: Cursor): ParsedCall {
  const name = word(c, /^[A-Za-z_][\w.-]*/);
  if (blank(c) !== '(') throw new Halt('bad');
  const args = items(c, ')', () => {
    const key = word(c, /^[A-Za-z_]\w*/);
    expect(c, '=');
    return `${JSON.stringify(key)}: ${literal(c)}`;
  });
  return { id: undefined, name, arguments: `{${args}}` };
}

/**
 * Reads `[name(key=value), ...]` or `name(key=value)` up to an optional `close`. Arguments have
 * keywords and literal values (LFM2, Llama 3's built-in tools).
 */
export function pythonReader(close: string): CallReader {
  return (text, final): CallRead => {
    // word() needs a character after a word, so a blank is added at the end of complete text.
    const c: Cursor = { text: final ? `${text} ` : text, at: 0, depth: 0 };
    try {
      const calls: ParsedCall[] = [];
      if (eat(c, '[')) {
        while (!eat(c, ']')) {
          calls.push(callOf(c));
          if (!eat(c, ',') && blank(c) !== ']') return 'bad';
        }
      } else calls.push(callOf(c));
      if (calls.length === 0) return 'bad';
      const end = Math.min(c.at, text.length);
      const rest = text.slice(end);
      const tail = rest.trimStart();
      if (close === '') return { calls, end };
      if (tail.startsWith(close)) return { calls, end: end + rest.length - tail.length + close.length };
      return close.startsWith(tail) && !final ? 'more' : { calls, end };
    } catch (error) {
      if (error instanceof Halt) return error.why === 'more' && !final ? 'more' : 'bad';
      throw error;
    }
  };
}

/**
 * Reads Gemma 4's `call:name{key:<|"|>text<|"|>,n:3}`: JSON with bare keys and a special token as
 * the quote.
 */
export function gemmaReader(close: string): CallReader {
  return (text, final): CallRead => {
    const at = text.indexOf(close);
    if (at < 0 && !final) return 'more';
    const body = at < 0 ? text : text.slice(0, at);
    const found = /^\s*call:([\w.-]+)(\{[\s\S]*\})\s*$/.exec(body);
    if (!found) return 'bad';
    const json = found[2]
      .split('<|"|>')
      .map((part, i) => (i % 2 === 1 ? JSON.stringify(part) : part.replace(/([{,]\s*)([\w.-]+)\s*:/g, '$1"$2": ')))
      .join('');
    try {
      JSON.parse(json);
    } catch {
      return 'bad';
    }
    return { calls: [{ id: undefined, name: found[1], arguments: json }], end: at < 0 ? text.length : at + close.length };
  };
}
