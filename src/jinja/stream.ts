/** Cursor over the tokens of a template. */
import type { Token } from './lexer.ts';
import { TemplateSyntaxError } from './syntax.ts';

export class TokenStream {
  readonly #tokens: readonly Token[];
  #at = 0;
  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }
  get current(): Token {
    return this.#tokens[this.#at];
  }
  get next(): Token {
    return this.#tokens[Math.min(this.#at + 1, this.#tokens.length - 1)];
  }
  take(): Token {
    const token = this.current;
    if (token.type !== 'end') this.#at++;
    return token;
  }
  is(type: Token['type'], text?: string): boolean {
    return this.current.type === type && (text === undefined || this.current.text === text);
  }
  isName = (...names: readonly string[]): boolean => this.current.type === 'name' && names.includes(this.current.text);
  isOperator = (...texts: readonly string[]): boolean => this.current.type === 'operator' && texts.includes(this.current.text);
  /** Consumes a name or an operator if it is next. */
  skip(type: 'name' | 'operator', text: string): boolean {
    if (!this.is(type, text)) return false;
    this.take();
    return true;
  }
  expect(type: Token['type'], text?: string): Token {
    if (!this.is(type, text)) throw this.fail(`expected ${text === undefined ? type : `'${text}'`}, got '${this.current.text}'`);
    return this.take();
  }
  fail(message: string): TemplateSyntaxError {
    return new TemplateSyntaxError(`${message} (line ${this.current.line})`);
  }
}
