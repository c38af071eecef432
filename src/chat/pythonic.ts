/**
 * Readers of tool calls written as Python calls (LFM2, Llama 3's built-in tools) and in Gemma 4's
 * notation.
 */
import { CallText, type CallReader, type CallSink, type Reading } from './call-text.ts';

/** Maximum nesting of literals: each level is a recursive call. */
const MAX_DEPTH = 200;

type Write = (json: string) => void;

/** A notation of literals. */
interface Literals {
  /** Reads a string if one begins here. Undefined: none does. */
  string(text: CallText, write: Write): Reading<boolean | undefined>;
  /** Pattern of a character of a key without quotes; undefined if keys are literals. */
  readonly key?: RegExp;
}

const NAMES: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
  true: 'true',
  false: 'false',
  null: 'null',
};

/** JSON of a part of a string, without the quotes. */
const inString = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Reads a literal, and writes it as JSON. */
function* literal(text: CallText, notation: Literals, write: Write, depth = 0): Reading<boolean> {
  const first = yield* text.blanks();
  const string = yield* notation.string(text, write);
  if (string !== undefined) return string;
  if (first === '[' || first === '(') {
    const close = first === '[' ? ']' : ')';
    return yield* items(text, [close, '[', ']'], depth, write, () => literal(text, notation, write, depth + 1));
  }
  if (first === '{') return yield* items(text, ['}', '{', '}'], depth, write, () => member(text, notation, write, depth + 1));
  const word = yield* text.run(/[-+.\w]/, Infinity);
  const json = Object.hasOwn(NAMES, word) ? NAMES[word] : /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(word) ? word : undefined;
  // The end of the answer may cut a number.
  if (json === undefined || (yield* text.charAt()) === '') return false;
  write(json);
  return true;
}

/** Reads items up to a closing bracket, from the opening one on, and writes them between brackets. */
function* items(
  text: CallText,
  [close, before, after]: readonly [close: string, before: string, after: string],
  depth: number,
  write: Write,
  item: () => Reading<boolean>,
): Reading<boolean> {
  if (depth >= MAX_DEPTH) return false;
  text.skip(1);
  write(before);
  for (let n = 0; (yield* text.blanks()) !== close; n++) {
    if (n > 0) {
      if (!(yield* text.eat(','))) return false;
      if ((yield* text.blanks()) === close) break;
      write(', ');
    }
    if (!(yield* item())) return false;
  }
  text.skip(1);
  write(after);
  return true;
}

/** Reads a key and its value. */
function* member(text: CallText, notation: Literals, write: Write, depth: number): Reading<boolean> {
  yield* text.blanks();
  let key = '';
  const named = yield* notation.string(text, (more) => (key += more));
  if (named === false) return false;
  if (named === undefined) {
    key = yield* text.run(notation.key ?? /[-+.\w]/);
    if (key === '') return false;
    key = JSON.stringify(Object.hasOwn(NAMES, key) && !notation.key ? NAMES[key] : key.trim());
  }
  yield* text.blanks();
  if (!(yield* text.eat(':'))) return false;
  write(`${key}: `);
  return yield* literal(text, notation, write, depth);
}

/**
 * Reads a string's text up to `quote`, if what follows fits.
 * @param escapes backslashes are escapes
 */
function* quoted(
  text: CallText,
  quote: string,
  escapes: boolean,
  fits: (offset: number) => Reading<boolean>,
  write: Write,
): Reading<boolean> {
  write('"');
  for (;;) {
    const rest = text.rest();
    let plain = 0;
    while (plain < rest.length && rest[plain] !== quote[0] && !(escapes && rest[plain] === '\\')) plain++;
    // Half a character has no escape of its own.
    const half = plain === rest.length && /[\ud800-\udbff]$/.test(rest) && !text.final ? 1 : 0;
    if (plain > half) {
      write(inString(rest.slice(0, plain - half)));
      text.skip(plain - half);
    }
    if (plain === rest.length) {
      if (!(yield* text.more())) return false;
    } else if (rest[plain] === '\\' && escapes) {
      const decoded = yield* escaped(text);
      if (decoded === undefined) return false;
      write(decoded);
    } else if ((yield* text.has(quote)) && (yield* fits(quote.length))) {
      text.skip(quote.length);
      write('"');
      return true;
    } else if (text.ended && text.length < quote.length) return false;
    else {
      write(inString(quote[0]));
      text.skip(1);
    }
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

/** Reads an escape, and returns it as JSON. */
function* escaped(text: CallText): Reading<string | undefined> {
  const char = yield* text.charAt(1);
  if (char === '') return undefined;
  const digits = char === 'x' ? 2 : char === 'u' ? 4 : 0;
  if (digits > 0) {
    if ((yield* text.charAt(1 + digits)) === '') return undefined;
    const code = text.rest().slice(2, 2 + digits);
    if (/^[\da-fA-F]+$/.test(code)) {
      text.skip(2 + digits);
      return digits === 4 ? `\\u${code}` : inString(String.fromCharCode(parseInt(code, 16)));
    }
  }
  text.skip(2);
  return inString(ESCAPES[char] ?? char);
}

/** For strings whose quote always ends them. */
function* always(): Reading<boolean> {
  return true;
}

const PYTHON: Literals = {
  *string(text, write) {
    const quote = yield* text.charAt();
    if (quote !== '"' && quote !== "'") return undefined;
    text.skip(1);
    return yield* quoted(text, quote, true, always, write);
  },
};

/** JSON of a complete Python literal; undefined for other text. */
export function pythonJson(text: string): string | undefined {
  const source = new CallText();
  source.add(`${text} `);
  source.final = true;
  let json = '';
  const read = literal(source, PYTHON, (more) => (json += more)).next().value;
  return read === true && source.rest() === ' ' ? json : undefined;
}

/** Reads one call from its name on. */
function* pythonCall(text: CallText, sink: CallSink, raw: boolean): Reading<boolean> {
  if (!/[A-Za-z_]/.test(yield* text.blanks())) return false;
  const name = yield* text.run(/[\w.-]/);
  if ((yield* text.blanks()) !== '(') return false;
  sink.open(name);
  const write: Write = (json) => sink.write(json);
  const argument = function* (): Reading<boolean> {
    if (!/[A-Za-z_]/.test(yield* text.blanks())) return false;
    const key = yield* text.run(/[\w.-]/);
    yield* text.blanks();
    if (!(yield* text.eat('='))) return false;
    const quote = yield* text.blanks();
    write(`${JSON.stringify(key)}: `);
    if (quote !== '"' && quote !== "'") return yield* literal(text, PYTHON, write);
    text.skip(1);
    return yield* quoted(text, quote, !(raw && quote === "'"), (offset) => followsArgument(text, offset), write);
  };
  if (!(yield* items(text, [')', '{', '}'], 0, write, argument))) return false;
  sink.close();
  return true;
}

/**
 * Tells if the text after a quote continues the call. Templates write quotes inside strings as they
 * are.
 */
function* followsArgument(text: CallText, offset: number): Reading<boolean> {
  let at = yield* text.afterBlanks(offset);
  const char = yield* text.charAt(at);
  if (char === ')') {
    at = yield* text.afterBlanks(at + 1);
    const next = yield* text.charAt(at);
    return next === '' || next === ',' || next === ']' || next === '<' || text.rest()[at - 1] === '\n';
  }
  if (char !== ',') return char === '';
  at = yield* text.afterBlanks(at + 1);
  const from = at;
  while (/[\w.-]/.test(yield* text.charAt(at))) at++;
  const next = yield* text.charAt(yield* text.afterBlanks(at));
  return next === '' || (at === from ? next === ')' : next === '=');
}

/**
 * Reads `[name(key=value), ...]` or `name(key=value)` up to an optional `close`. Arguments have
 * keywords and literal values (LFM2, Llama 3's built-in tools).
 * @param raw the template writes strings between single quotes without escapes
 */
export function pythonReader(close: string, raw = false): CallReader {
  return function* (text, sink) {
    if ((yield* text.blanks()) === '[') {
      text.skip(1);
      for (;;) {
        if (!(yield* pythonCall(text, sink, raw))) return false;
        const char = yield* text.blanks();
        if (char !== ',' && char !== ']') return false;
        text.skip(1);
        if (char === ']' || (yield* text.blanks()) === ']') break;
      }
    } else if (!(yield* pythonCall(text, sink, raw))) return false;
    if (close !== '') yield* text.close(close);
    return true;
  };
}

/** Quote of Gemma 4's strings. */
export const GEMMA_QUOTE = '<|"|>';
/** Gemma's literals: bare keys, and a special token as the quote. */
const GEMMA: Literals = {
  *string(text, write) {
    if (!(yield* text.eat(GEMMA_QUOTE))) return undefined;
    return yield* quoted(text, GEMMA_QUOTE, false, (offset) => followsQuote(text, offset), write);
  },
  key: /[^:{}[\]<>,"]/,
};

/** Tells if the text after a quote continues the notation. If not, the quote was text. */
function* followsQuote(text: CallText, offset: number): Reading<boolean> {
  const char = yield* text.charAt(yield* text.afterBlanks(offset));
  return char === '' || ',}]:'.includes(char);
}

/**
 * Reads Gemma 4's `call:name{key:<|"|>text<|"|>,n:3}`: JSON with bare keys and a special token as
 * the quote.
 */
export function gemmaReader(close: string): CallReader {
  return function* (text, sink) {
    yield* text.blanks();
    if (!(yield* text.eat('call:'))) return false;
    const name = yield* text.run(/[\w.-]/);
    if (name === '' || (yield* text.charAt()) !== '{') return false;
    sink.open(name);
    const write: Write = (json) => sink.write(json);
    if (!(yield* items(text, ['}', '{', '}'], 0, write, () => member(text, GEMMA, write, 1)))) return false;
    sink.close();
    yield* text.close(close);
    return true;
  };
}
