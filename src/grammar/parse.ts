/** Parses llama.cpp's GBNF into expressions. */
import { QuantletError } from '../errors.ts';
import { atOnce, type Work } from '../slices.ts';
import { GbnfCursor, grammarError, isOfName, type Position } from './gbnf-cursor.ts';
import { normalizeRanges } from './ranges.ts';

export type Expression =
  | { readonly type: 'text'; readonly text: string }
  /**
   * Code point ranges, flat [low, high, low, high ...], in ascending order, without overlaps or
   * surrogates.
   */
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

/** Deepest nesting of groups, because each level is a recursive call. */
const MAX_DEPTH = 256;
/** Repetition marks after one item. */
const MAX_MARKS = 8;
/**
 * Longest grammar in characters, since grammars come from clients. Grammars generated from schemas
 * have the same limit.
 */
const MAX_TEXT = 1_000_000;
/** Limit of characters and ranges in a class, which are sorted without a pause. */
const MAX_CLASS = 10_000;

/** The model's tokens, for token references. */
interface TokenNames {
  /** The token with this text; undefined if no token has it. */
  readonly tokenId: (text: string) => number | undefined;
  readonly nVocab: number;
}

/**
 * Parses llama.cpp's GBNF: rules `name ::= ...` with alternatives, groups, "text", [classes], `.`,
 * the repetitions * + ? {m} {m,} {m,n}, comments from # to the end of the line, and token
 * references <text>, <[id]>, !<text>, !<[id]>.
 * @param tokenId finds the token whose text is `text`
 * @throws QuantletError ERR_GRAMMAR
 */
export function parseGbnf(source: string, tokenId: TokenNames['tokenId'], nVocab: number): Map<string, Rule> {
  return atOnce(parseGbnfWork(source, tokenId, nVocab));
}

/** parseGbnf() as a generator that pauses. */
export function* parseGbnfWork(source: string, tokenId: TokenNames['tokenId'], nVocab: number): Work<Map<string, Rule>> {
  if (source.length > MAX_TEXT)
    throw new QuantletError('ERR_GRAMMAR', `the grammar has ${source.length} characters; expected at most ${MAX_TEXT}`);
  return yield* new GbnfParser(source, { tokenId, nVocab }).rules();
}

/**
 * Recursive-descent parser with a method for each construct. `nested`: inside a group, where line
 * breaks are allowed.
 */
class GbnfParser {
  readonly #at: GbnfCursor;
  readonly #tokens: TokenNames;
  /** Depth of groups at the cursor. */
  #depth = 0;

  constructor(source: string, tokens: TokenNames) {
    this.#at = new GbnfCursor(source);
    this.#tokens = tokens;
  }

  *rules(): Work<Map<string, Rule>> {
    const at = this.#at;
    const rules = new Map<string, Rule>();
    for (yield* at.skipSpace(true); !at.atEnd; yield* at.skipSpace(true)) {
      const rule = yield* this.#rule();
      const earlier = rules.get(rule.name);
      if (earlier)
        throw grammarError(
          rule.at,
          `rule ${rule.name} is defined again, after line ${earlier.at.line}; expected one definition with | between its alternatives`,
        );
      rules.set(rule.name, rule);
      yield;
    }
    return rules;
  }

  *#rule(): Work<Rule> {
    const at = this.#at;
    const start = at.pos;
    const name = at.name('the name of a rule');
    yield* at.skipSpace(false);
    at.expect('::=');
    yield* at.skipSpace(true);
    const body = yield* this.#choice(false);
    if (!at.atEnd && at.next !== '\n' && at.next !== '\r') at.fail('"text", a [class], a rule, a group, | or the end of the line');
    return { name, at: at.position(start), body };
  }

  *#choice(nested: boolean): Work<Expression> {
    const options = [yield* this.#sequence(nested)];
    while (this.#at.take('|')) {
      yield* this.#at.skipSpace(true);
      options.push(yield* this.#sequence(nested));
    }
    return options.length === 1 ? options[0] : { type: 'choice', options };
  }

  *#sequence(nested: boolean): Work<Expression> {
    const items: Expression[] = [];
    for (let item = yield* this.#item(); item !== undefined; item = yield* this.#item()) {
      for (let marks = 0; ; marks++) {
        yield* this.#at.skipSpace(nested);
        const start = this.#at.pos;
        const repeated: Expression = yield* this.#repetition(item);
        if (repeated === item) break;
        if (marks === MAX_MARKS) this.#at.fail(`at most ${MAX_MARKS} repetitions of a repetition`, start);
        item = repeated;
      }
      items.push(item);
    }
    return items.length === 1 ? items[0] : { type: 'sequence', items };
  }

  /** One item of a sequence; undefined at its end. */
  *#item(): Work<Expression | undefined> {
    const at = this.#at;
    const c = at.next;
    if (c === '"') return yield* this.#text();
    if (c === '[') return yield* this.#class();
    if (c === '(') return yield* this.#group();
    if (c === '<' || c === '!') return this.#token();
    if (at.take('.')) return { type: 'chars', ranges: normalizeRanges([], true) };
    if (c === undefined || !isOfName(at.source.charCodeAt(at.pos))) return undefined;
    const position = at.position();
    return { type: 'rule', name: at.name('a name'), at: position };
  }

  *#text(): Work<Expression> {
    const at = this.#at;
    let text = '';
    at.pos++;
    while (at.next !== '"') {
      text += String.fromCodePoint(at.character('"'));
      if (at.pauseIsDue()) yield;
    }
    at.pos++;
    return { type: 'text', text };
  }

  *#class(): Work<Expression> {
    const at = this.#at;
    const start = at.pos++;
    const negated = at.take('^');
    const pairs: [number, number][] = [];
    while (at.next !== ']') {
      pairs.push(this.#range());
      if (pairs.length > MAX_CLASS) at.fail(`at most ${MAX_CLASS} characters and ranges in a class`, start);
      if (at.pauseIsDue()) yield;
    }
    if (pairs.length === 0) at.fail('a character in the class', start);
    at.pos++;
    return { type: 'chars', ranges: normalizeRanges(pairs, negated) };
  }

  /** One character of a class, or a range of them. */
  #range(): [low: number, high: number] {
    const at = this.#at;
    const start = at.pos;
    const low = at.character(']');
    if (at.next !== '-' || at.source[at.pos + 1] === ']') return [low, low];
    at.pos++;
    const high = at.character(']');
    if (high < low) at.fail('a range whose end is not below its start', start);
    return [low, high];
  }

  #token(): Expression {
    const at = this.#at;
    const start = at.pos;
    const negated = at.take('!');
    const open = at.pos;
    at.expect('<', '< of a token');
    const id = at.take('[') ? this.#tokenById(start) : this.#tokenByText(start, open);
    return { type: 'token', id, negated };
  }

  #tokenById(start: number): number {
    const at = this.#at;
    const id = at.integer();
    if (id >= this.#tokens.nVocab) at.fail(`a token id below ${this.#tokens.nVocab}`, start);
    at.expect(']>');
    return id;
  }

  #tokenByText(start: number, open: number): number {
    const at = this.#at;
    while (!at.atEnd && at.next !== '>' && at.next !== '\n') at.pos++;
    at.expect('>', '> of a token');
    const text = at.source.slice(open, at.pos);
    return this.#tokens.tokenId(text) ?? at.fail(`a single token of this model's vocabulary, which ${text} is not`, start);
  }

  *#group(): Work<Expression> {
    const at = this.#at;
    const start = at.pos++;
    if (++this.#depth > MAX_DEPTH) at.fail(`groups nested at most ${MAX_DEPTH} deep`, start);
    yield* at.skipSpace(true);
    const body = yield* this.#choice(true);
    at.expect(')');
    this.#depth--;
    return body;
  }

  /** The item with the repetition after it, or the same item without one. */
  *#repetition(item: Expression): Work<Expression> {
    const at = this.#at;
    if (at.take('*')) return { type: 'repeat', item, min: 0, max: Infinity };
    if (at.take('+')) return { type: 'repeat', item, min: 1, max: Infinity };
    if (at.take('?')) return { type: 'repeat', item, min: 0, max: 1 };
    return at.next === '{' ? yield* this.#counted(item) : item;
  }

  /** The repetition {m}, {m,}, {,n} or {m,n} of an item. */
  *#counted(item: Expression): Work<Expression> {
    const at = this.#at;
    const start = at.pos++;
    yield* at.skipSpace(false);
    const min = at.next === ',' ? 0 : at.integer();
    yield* at.skipSpace(false);
    let max = min;
    if (at.take(',')) {
      yield* at.skipSpace(false);
      max = at.next === '}' ? Infinity : at.integer();
      yield* at.skipSpace(false);
    }
    at.expect('}');
    if (max < min) at.fail('a repetition {m,n} with m <= n', start);
    return { type: 'repeat', item, min, max };
  }
}
