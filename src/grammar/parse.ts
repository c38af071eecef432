/** llama.cpp's GBNF, read into expressions. */
import { QuantletError } from '../errors.ts';
import { atOnce, type Work } from '../slices.ts';

/** Where something stands in the text of a grammar; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export type Expression =
  | { readonly type: 'text'; readonly text: string }
  /** code point ranges, flat [low, high, low, high ...], ascending, without overlap, surrogates left out */
  | { readonly type: 'chars'; readonly ranges: readonly number[] }
  | { readonly type: 'rule'; readonly name: string; readonly at: Position }
  | { readonly type: 'token'; readonly id: number; readonly negated: boolean }
  | { readonly type: 'sequence'; readonly items: readonly Expression[] }
  | { readonly type: 'choice'; readonly options: readonly Expression[] }
  | { readonly type: 'repeat'; readonly item: Expression; readonly min: number; readonly max: number };

export interface Rule {
  readonly name: string;
  readonly at: Position;
  readonly body: Expression;
}

const MAX_CODE_POINT = 0x10ffff;
const MAX_DEPTH = 256;
const MAX_MARKS = 8;
/** Grammars come from clients; one generated from a schema may be so long too. */
const MAX_TEXT = 1_000_000;
/** Characters of a rule's name; characters and ranges of a class, which are sorted in one go. */
const MAX_NAME = 1000;
const MAX_CLASS = 10_000;
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-' };
const HEX_ESCAPES: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** Letters, digits, _ and -. */
const isOfName = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || (code >= 0x30 && code <= 0x39) || code === 0x5f || code === 0x2d;

/** @throws QuantletError ERR_GRAMMAR with line and column, what was found and what was expected */
export function grammarError(at: Position, message: string): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `grammar, line ${at.line}, column ${at.column}: ${message}`);
}

/**
 * Reads llama.cpp's GBNF: rules `name ::= ...` with alternatives, groups, "text", [classes], `.`, the repetitions
 * * + ? {m} {m,} {m,n}, comments from # to the end of the line, and token references <text>, <[id]>, !<text>, !<[id]>.
 * @param tokenId finds the token whose text is `text`
 * @throws QuantletError ERR_GRAMMAR
 */
export function parseGbnf(source: string, tokenId: (text: string) => number | undefined, nVocab: number): Map<string, Rule> {
  return atOnce(parseGbnfWork(source, tokenId, nVocab));
}

/** Characters between two places where the work may pause. */
const STRIDE = 4096;

/** The same as work that pauses. */
export function* parseGbnfWork(source: string, tokenId: (text: string) => number | undefined, nVocab: number): Work<Map<string, Rule>> {
  if (source.length > MAX_TEXT)
    throw new QuantletError('ERR_GRAMMAR', `the grammar has ${source.length} characters: expected at most ${MAX_TEXT}`);
  let pos = 0;
  let depth = 0;
  let pause = STRIDE;
  const rules = new Map<string, Rule>();

  /** Where lines begin: every reference has a position, and counting lines for each would take a time quadratic in the grammar. */
  const lines = [0];
  for (let at = source.indexOf('\n'); at >= 0; at = source.indexOf('\n', at + 1)) lines.push(at + 1);

  function position(at: number): Position {
    let low = 0;
    let high = lines.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (lines[middle] <= at) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: at - lines[low] + 1 };
  }

  function fail(expected: string, at = pos): never {
    const found = at >= source.length ? 'the end' : JSON.stringify(String.fromCodePoint(source.codePointAt(at)!));
    throw grammarError(position(at), `found ${found}, expected ${expected}`);
  }

  function* skipSpace(newlines: boolean): Work<void> {
    for (;;) {
      if (pos >= pause) {
        pause = pos + STRIDE;
        yield;
      }
      const c = source[pos];
      if (c === '#') while (pos < source.length && source[pos] !== '\n' && source[pos] !== '\r') pos++;
      else if (c === ' ' || c === '\t' || (newlines && (c === '\n' || c === '\r'))) pos++;
      else return;
    }
  }

  function readName(expected: string): string {
    const start = pos;
    while (pos - start <= MAX_NAME && isOfName(source.charCodeAt(pos))) pos++;
    if (pos === start) fail(expected);
    if (pos - start > MAX_NAME) fail(`a name of at most ${MAX_NAME} characters`, start);
    return source.slice(start, pos);
  }

  function readInteger(): number {
    const start = pos;
    while (source[pos] >= '0' && source[pos] <= '9') pos++;
    if (pos === start) fail('a number');
    return Number(source.slice(start, pos));
  }

  /** One character of "text" or of a class, as a code point. */
  function readCharacter(closing: string): number {
    if (pos >= source.length) fail(`a character or ${closing}`);
    if (source[pos] !== '\\') {
      const code = source.codePointAt(pos)!;
      if (code >= 0xd800 && code <= 0xdfff) fail('a whole character: half of a surrogate pair has no UTF-8 form');
      pos += code > 0xffff ? 2 : 1;
      return code;
    }
    const start = pos;
    const kind = source[pos + 1] ?? '';
    const digits = HEX_ESCAPES[kind];
    if (digits !== undefined) {
      const hex = source.slice(pos + 2, pos + 2 + digits);
      if (hex.length < digits || !/^[0-9a-fA-F]+$/.test(hex)) fail(`${digits} hexadecimal digits after \\${kind}`, start);
      const code = parseInt(hex, 16);
      if (code > MAX_CODE_POINT || (code >= 0xd800 && code <= 0xdfff)) fail('a Unicode code point that is no surrogate', start);
      pos += 2 + digits;
      return code;
    }
    const plain = ESCAPES[kind];
    if (plain === undefined) fail('one of the escapes \\n \\r \\t \\\\ \\" \\[ \\] \\- \\x \\u \\U', start);
    pos += 2;
    return plain.charCodeAt(0);
  }

  function* readText(): Work<Expression> {
    let text = '';
    pos++;
    while (source[pos] !== '"') {
      text += String.fromCodePoint(readCharacter('"'));
      if (pos < pause) continue;
      pause = pos + STRIDE;
      yield;
    }
    pos++;
    return { type: 'text', text };
  }

  function* readClass(): Work<Expression> {
    const start = pos++;
    const negated = source[pos] === '^';
    if (negated) pos++;
    const pairs: [number, number][] = [];
    while (source[pos] !== ']') {
      const at = pos;
      const low = readCharacter(']');
      let high = low;
      if (source[pos] === '-' && source[pos + 1] !== ']') {
        pos++;
        high = readCharacter(']');
        if (high < low) fail('a range whose end is not below its start', at);
      }
      pairs.push([low, high]);
      if (pairs.length > MAX_CLASS) fail(`at most ${MAX_CLASS} characters and ranges in a class`, start);
      if (pos < pause) continue;
      pause = pos + STRIDE;
      yield;
    }
    if (pairs.length === 0) fail('a character in the class', start);
    pos++;
    return { type: 'chars', ranges: normalizeRanges(pairs, negated) };
  }

  function readToken(): Expression {
    const start = pos;
    const negated = source[pos] === '!';
    if (negated) pos++;
    if (source[pos] !== '<') fail('< of a token');
    const open = pos++;
    if (source[pos] === '[') {
      pos++;
      const id = readInteger();
      if (id >= nVocab) fail(`a token id below ${nVocab}`, start);
      if (source.slice(pos, pos + 2) !== ']>') fail(']>');
      pos += 2;
      return { type: 'token', id, negated };
    }
    while (pos < source.length && source[pos] !== '>' && source[pos] !== '\n') pos++;
    if (source[pos] !== '>') fail('> of a token');
    const text = source.slice(open, ++pos);
    const id = tokenId(text);
    if (id === undefined) fail(`a single token of this model's vocabulary, which ${text} is not`, start);
    return { type: 'token', id, negated };
  }

  function* readGroup(): Work<Expression> {
    const start = pos++;
    if (++depth > MAX_DEPTH) fail(`groups nested at most ${MAX_DEPTH} deep`, start);
    yield* skipSpace(true);
    const body = yield* readChoice(true);
    if (source[pos] !== ')') fail(')');
    pos++;
    depth--;
    return body;
  }

  function* readRepetition(item: Expression): Work<Expression> {
    switch (source[pos]) {
      case '*':
        pos++;
        return { type: 'repeat', item, min: 0, max: Infinity };
      case '+':
        pos++;
        return { type: 'repeat', item, min: 1, max: Infinity };
      case '?':
        pos++;
        return { type: 'repeat', item, min: 0, max: 1 };
      case '{': {
        const start = pos++;
        yield* skipSpace(false);
        const min = source[pos] === ',' ? 0 : readInteger();
        yield* skipSpace(false);
        let max = min;
        if (source[pos] === ',') {
          pos++;
          yield* skipSpace(false);
          max = source[pos] === '}' ? Infinity : readInteger();
          yield* skipSpace(false);
        }
        if (source[pos] !== '}') fail('}');
        if (max < min) fail('a repetition {m,n} with m <= n', start);
        pos++;
        return { type: 'repeat', item, min, max };
      }
      default:
        return item;
    }
  }

  function* readItem(): Work<Expression | undefined> {
    const c = source[pos];
    if (c === '"') return yield* readText();
    if (c === '[') return yield* readClass();
    if (c === '(') return yield* readGroup();
    if (c === '<' || c === '!') return readToken();
    if (c === '.') {
      pos++;
      return { type: 'chars', ranges: normalizeRanges([], true) };
    }
    if (c === undefined || !isOfName(source.charCodeAt(pos))) return undefined;
    const at = position(pos);
    return { type: 'rule', name: readName('a name'), at };
  }

  function* readSequence(nested: boolean): Work<Expression> {
    const items: Expression[] = [];
    for (let item = yield* readItem(); item !== undefined; item = yield* readItem()) {
      for (let marks = 0; ; marks++) {
        yield* skipSpace(nested);
        const start = pos;
        const repeated: Expression = yield* readRepetition(item);
        if (repeated === item) break;
        if (marks === MAX_MARKS) fail(`at most ${MAX_MARKS} repetitions of a repetition`, start);
        item = repeated;
      }
      items.push(item);
    }
    return items.length === 1 ? items[0] : { type: 'sequence', items };
  }

  function* readChoice(nested: boolean): Work<Expression> {
    const options = [yield* readSequence(nested)];
    while (source[pos] === '|') {
      pos++;
      yield* skipSpace(true);
      options.push(yield* readSequence(nested));
    }
    return options.length === 1 ? options[0] : { type: 'choice', options };
  }

  for (yield* skipSpace(true); pos < source.length; yield* skipSpace(true)) {
    const start = pos;
    const name = readName('the name of a rule');
    yield* skipSpace(false);
    if (!source.startsWith('::=', pos)) fail('::=');
    pos += 3;
    yield* skipSpace(true);
    const body = yield* readChoice(false);
    if (pos < source.length && source[pos] !== '\n' && source[pos] !== '\r')
      fail('"text", a [class], a rule, a group, | or the end of the line');
    const at = position(start);
    const earlier = rules.get(name);
    if (earlier)
      throw grammarError(
        at,
        `rule ${name} is defined a second time, the first was on line ${earlier.at.line}: expected one definition with | between its alternatives`,
      );
    rules.set(name, { name, at, body });
    yield;
  }
  return rules;
}

/** Ascending ranges without overlap or surrogates; the complement of them where negated. */
export function normalizeRanges(pairs: readonly (readonly [low: number, high: number])[], negated: boolean): number[] {
  const merged: number[] = [];
  for (const [low, high] of [...pairs].sort((a, b) => a[0] - b[0])) {
    if (merged.length > 0 && low <= merged[merged.length - 1] + 1) merged[merged.length - 1] = Math.max(merged[merged.length - 1], high);
    else merged.push(low, high);
  }
  let ranges = merged;
  if (negated) {
    ranges = [];
    let from = 0;
    for (let i = 0; i < merged.length; i += 2) {
      if (merged[i] > from) ranges.push(from, merged[i] - 1);
      from = merged[i + 1] + 1;
    }
    if (from <= MAX_CODE_POINT) ranges.push(from, MAX_CODE_POINT);
  }
  const whole: number[] = [];
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i] < 0xd800) whole.push(ranges[i], Math.min(ranges[i + 1], 0xd7ff));
    if (ranges[i + 1] > 0xdfff) whole.push(Math.max(ranges[i], 0xe000), ranges[i + 1]);
  }
  return whole;
}
