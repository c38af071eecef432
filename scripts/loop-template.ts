/**
 * Template language of loops (assembly/templates/), which write a line for each row and column of
 * their tiles. A template is TypeScript: directives are comments, and `$` is a letter of
 * identifiers. So editors, prettier and eslint read it as the loop that it becomes.
 *
 *   // $for c of 0..COLS   | repeats the lines up to its $end for c = 0 .. COLS - 1. Any
 *   // $end                | expression whose value is a list may follow `of`, and several names
 *                          | take the parts of items that are lists
 *   x; // $for g of 0..2   | repeats one line
 *   // $if ROWS == 16      | keeps the lines up to $else or $end if the expression is true
 *   // $else               |
 *   // $let next = c + 1   | names a value, up to the end of the block it stands in
 *   s$g$c                  | the values of g and c: s01. A name is all capitals or all small letters
 *   $(16 * g)              | the value of an expression without parentheses
 *
 * Expressions are JavaScript's. Libraries (ejs, eta, nunjucks) have tags that no TypeScript parser
 * takes, so their templates would be neither coloured, formatted nor checked.
 */
export type Value = number | string | boolean | readonly Value[];
export type Values = Readonly<Record<string, Value>>;

interface Line {
  /** File and number, for errors. */
  readonly at: string;
  readonly kind: 'text' | 'for' | 'if' | 'else' | 'end' | 'let';
  readonly rest: string;
}

const KINDS = ['for', 'if', 'else', 'end', 'let'];
const DIRECTIVE = /^\s*\/\/ \$(\w*)(.*)$/;
const REPEATED = /^(.*\S) \/\/ \$for (.*)$/;
const NAME = '(?:[A-Z]+|[a-z]+)';
const LOOP = new RegExp(`^(${NAME}(?:, ${NAME})*) of (.+)$`);
const LET = new RegExp(`^(${NAME}) = (.+)$`);
const VALUE = new RegExp(`\\$(?:\\(([^()]*)\\)|(${NAME}))?`, 'g');

const fail = (line: Line, message: string): never => {
  throw new Error(`${line.at}: ${message}`);
};

function lineOf(text: string, at: string): readonly Line[] {
  const [, repeated, list] = REPEATED.exec(text) ?? [];
  if (repeated !== undefined)
    return [
      { at, kind: 'for', rest: list },
      { at, kind: 'text', rest: repeated },
      { at, kind: 'end', rest: '' },
    ];
  const [, kind, rest] = DIRECTIVE.exec(text) ?? [];
  const line: Line = { at, kind: 'text', rest: text };
  if (kind === undefined) return [line];
  if (!KINDS.includes(kind)) fail(line, `there is no directive $${kind}; expected $${KINDS.join(', $')}`);
  return [{ at, kind: kind as Line['kind'], rest: rest.trim() }];
}

function evaluate(line: Line, expression: string, values: Values): Value {
  try {
    return new Function(...Object.keys(values), `'use strict'; return (${expression});`)(...Object.values(values)) as Value;
  } catch (error) {
    return fail(line, `${expression}: ${(error as Error).message}`);
  }
}

const substituted = (line: Line, values: Values): string =>
  line.rest.replaceAll(VALUE, (whole, expression?: string, name?: string) => {
    if (expression !== undefined) return String(evaluate(line, expression, values));
    if (name === undefined || !Object.hasOwn(values, name))
      fail(line, `there is no value ${whole}; the values here are ${Object.keys(values).join(', ')}`);
    return String(values[name as string]);
  });

/** Values of the names of a $for, for each time that its lines are written. */
function rounds(line: Line, values: Values): readonly Values[] {
  const [, list, of] = LOOP.exec(line.rest) ?? fail(line, 'expected $for name of list');
  const [from, to] = of.split('..').map((part) => evaluate(line, part, values));
  const items = to === undefined ? from : Array.from({ length: Math.max(0, Number(to) - Number(from)) }, (_, i) => Number(from) + i);
  if (!Array.isArray(items)) return fail(line, `${of} is no list`);
  const names = list.split(', ');
  return (items as readonly Value[]).map((item) => {
    const parts = names.length > 1 ? item : [item];
    if (!Array.isArray(parts) || parts.length !== names.length) return fail(line, `${String(item)} is no list of ${names.length} values`);
    return Object.fromEntries(names.map((name, i) => [name, parts[i] as Value]));
  });
}

/** A template that is being written. */
class Writing {
  readonly out: string[] = [];
  readonly #lines: readonly Line[];

  constructor(lines: readonly Line[]) {
    this.#lines = lines;
  }

  /**
   * Writes a block from line `at` on, or only passes it. Returns the line that ends it: $else, $end
   * or the last + 1.
   */
  block(at: number, values: Values, writes = true): number {
    const here: Record<string, Value> = { ...values };
    for (; at < this.#lines.length; at++) {
      const line = this.#lines[at];
      if (line.kind === 'else' || line.kind === 'end') return at;
      if (line.kind === 'for') at = this.#repeat(at, here, writes);
      else if (line.kind === 'if') at = this.#choose(at, here, writes);
      else if (writes && line.kind === 'text') this.out.push(substituted(line, here));
      else if (writes) {
        const [, name, expression] = LET.exec(line.rest) ?? fail(line, 'expected $let name = expression');
        here[name] = evaluate(line, expression, here);
      }
    }
    return at;
  }

  #repeat(at: number, values: Values, writes: boolean): number {
    for (const round of writes ? rounds(this.#lines[at], values) : []) this.block(at + 1, { ...values, ...round });
    return this.#ended(at, this.block(at + 1, values, false));
  }

  #choose(at: number, values: Values, writes: boolean): number {
    const line = this.#lines[at];
    const holds = writes && Boolean(evaluate(line, line.rest, values));
    const then = this.block(at + 1, values, holds);
    const has = this.#lines[then]?.kind === 'else';
    return this.#ended(at, has ? this.block(then + 1, values, writes && !holds) : then);
  }

  #ended(opening: number, at: number): number {
    const line = this.#lines[opening];
    if (this.#lines[at]?.kind === 'end') return at;
    return fail(this.#lines[at] ?? line, `expected the $end of the $${line.kind} in ${line.at}`);
  }
}

/** A template's text with values put in. file: the template's path, for errors. */
export function expand(text: string, values: Values, file: string): string {
  const lines = text.split('\n').flatMap((line, i) => lineOf(line, `${file}:${i + 1}`));
  const writing = new Writing(lines);
  const last = writing.block(0, values);
  if (last < lines.length) fail(lines[last], `there is no block that this $${lines[last].kind} ends`);
  return writing.out.join('\n');
}
