/**
 * Lexer of templates, with trim_blocks and lstrip_blocks. Takes time linear in the length of the
 * source, for any source.
 */
import { parseString } from './literals.ts';
import { TemplateSyntaxError } from './syntax.ts';
import { Float, type Value } from './values.ts';
import { intOf } from './numbers.ts';

export interface Token {
  readonly type: 'text' | 'open' | 'close' | 'name' | 'literal' | 'operator' | 'end';
  /** Source of the token; for an opened or closed tag, `{{` or `{%`. */
  readonly text: string;
  readonly value: Value;
  readonly line: number;
}

const space = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const sticky = (source: string, flags = ''): RegExp => new RegExp(source, `y${flags}`);
const blanks = sticky(`${space}+`);
const isBlank = new RegExp(`^${space}$`);
const rawBegin = sticky(`\\{%[-+]?${space}*raw${space}*(-%\\}${space}*|%\\})`);
const rawEnd = sticky(`\\{%([-+]?)${space}*endraw${space}*(\\+%\\}|-%\\}${space}*|%\\}\\n?)`);
const close: Readonly<Record<string, RegExp>> = {
  '{{': sticky(`-\\}\\}${space}*|\\}\\}`),
  '{%': sticky(`\\+%\\}|-%\\}${space}*|%\\}\\n?`),
};
const float = sticky('\\d+(?:_\\d+)*(?:(?:\\.\\d+(?:_\\d+)*)?[eE][+-]?\\d+(?:_\\d+)*|\\.\\d+(?:_\\d+)*)');
const integer = sticky('0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\\da-fA-F])+|[1-9](?:_?\\d)*|0(?:_?0)*');
const name = sticky('[\\p{L}\\p{N}\\p{Mn}\\p{Mc}\\p{Pc}]+', 'u');
const identifier = /^[\p{XIDS}_]\p{XIDC}*$/u;
const string = sticky('\'[^\'\\\\]*(?:\\\\.[^\'\\\\]*)*\'|"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"', 's');
const operator = sticky('//|\\*\\*|==|!=|>=|<=|[-+/*%~[\\](){}><=.:|,;]');
const pairs: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' };

export function tokenize(given: string): Token[] {
  return new Lexer(given).tokens();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  #counted = 0;
  constructor(given: string) {
    this.#source = given.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  }

  tokens(): Token[] {
    while (this.#at < this.#source.length) this.#text();
    this.#push('end', 'the end of the template');
    return this.#tokens;
  }

  #push(type: Token['type'], text: string, value: Value = null): void {
    for (; this.#counted < this.#at; this.#counted++) if (this.#source.charCodeAt(this.#counted) === 10) this.#line++;
    this.#tokens.push({ type, text, value, line: this.#line });
  }

  #fail(message: string): TemplateSyntaxError {
    this.#push('end', '');
    return new TemplateSyntaxError(`${message} (line ${this.#line})`);
  }

  /** Consumes the match of a pattern at the current position. */
  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  /** Reads the text up to the next tag, and that tag. */
  #text(): void {
    const source = this.#source;
    const from = this.#at;
    let open = source.indexOf('{', from);
    while (open >= 0 && !'{%#'.includes(source[open + 1] ?? ' ')) open = source.indexOf('{', open + 1);
    if (open < 0) {
      this.#at = source.length;
      return this.#push('text', source.slice(from));
    }
    const kind = source.slice(open, open + 2);
    const sign = '-+'.includes(source[open + 2] ?? ' ') ? source[open + 2] : '';
    const text = source.slice(from, this.#textEnd(from, open, kind, sign));
    this.#at = open;
    if (text !== '') this.#push('text', text);
    if (kind === '{%' && this.#take(rawBegin) !== undefined) return this.#raw();
    this.#at = open + 2 + sign.length;
    if (kind === '{#') return this.#comment();
    this.#push('open', kind);
    this.#tag(kind);
  }

  /**
   * End of the text before a tag. The tag may consume the blanks before it on its line
   * (lstrip_blocks), or all of them ("-").
   */
  #textEnd(from: number, open: number, kind: string, sign: string): number {
    const source = this.#source;
    if (sign === '+' || (sign === '' && kind === '{{')) return open;
    let end = open;
    if (sign === '-') {
      while (end > from && isBlank.test(source[end - 1])) end--;
      return end;
    }
    while (end > from && source[end - 1] !== '\n' && isBlank.test(source[end - 1])) end--;
    // Blanks are consumed only if nothing else precedes the tag on its line, not even another tag.
    // (A tag that consumed the line break after it is on the line before.)
    return end === from ? (from === 0 || source[from - 1] === '\n' ? end : open) : source[end - 1] === '\n' ? end : open;
  }

  #comment(): void {
    const end = this.#source.indexOf('#}', this.#at);
    if (end < 0) throw this.#fail('Missing end of comment tag');
    const sign = end > this.#at ? this.#source[end - 1] : '';
    this.#at = end + 2;
    if (sign === '-') this.#take(blanks);
    else if (sign !== '+' && this.#source[this.#at] === '\n') this.#at++;
  }

  #raw(): void {
    const source = this.#source;
    const from = this.#at;
    for (let open = source.indexOf('{%', from); open >= 0; open = source.indexOf('{%', open + 2)) {
      rawEnd.lastIndex = open;
      const match = rawEnd.exec(source);
      if (!match) continue;
      const end = this.#textEnd(from, open, '{%', match[1]);
      this.#at = open + match[0].length;
      if (end > from) this.#push('text', source.slice(from, end));
      return;
    }
    throw this.#fail('Missing end of raw directive');
  }

  /** Reads the tokens between `{{` and `}}` or `{%` and `%}`. */
  #tag(kind: string): void {
    const open: string[] = [];
    for (;;) {
      if (open.length === 0 && this.#take(close[kind]) !== undefined) return this.#push('close', kind);
      if (this.#at >= this.#source.length) throw this.#fail(`unexpected end of template in ${kind}`);
      if (this.#take(blanks) !== undefined) continue;
      if (this.#literal()) continue;
      const found = this.#take(operator);
      if (found === undefined) throw this.#fail(`unexpected character ${JSON.stringify(this.#source[this.#at])}`);
      if (pairs[found]) open.push(pairs[found]);
      else if ('})]'.includes(found) && open.pop() !== found) throw this.#fail(`unexpected '${found}'`);
      this.#push('operator', found);
    }
  }

  /** A number, a name or a string. */
  #literal(): boolean {
    const afterPoint = this.#source[this.#at - 1] === '.';
    const real = afterPoint ? undefined : this.#take(float);
    if (real !== undefined) return (this.#push('literal', real, new Float(Number(real.replaceAll('_', '')))), true);
    const whole = this.#take(integer);
    if (whole !== undefined) {
      if (whole.length > MAX_DIGITS) throw this.#fail(`an integer of more than ${MAX_DIGITS} digits`);
      return (this.#push('literal', whole, intOf(BigInt(whole.replaceAll('_', '')))), true);
    }
    const word = this.#take(name);
    if (word !== undefined) {
      if (!identifier.test(word)) throw this.#fail('Invalid character in identifier');
      return (this.#push('name', word), true);
    }
    const quoted = this.#take(string);
    if (quoted === undefined) return false;
    const value = parseString(quoted.slice(1, -1));
    if (value === undefined) throw this.#fail('an invalid escape in a string');
    return (this.#push('literal', quoted, value), true);
  }
}

const MAX_DIGITS = 4300;
