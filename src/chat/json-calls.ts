/** Readers of calls in JSON: objects with name and arguments, and arguments after a name. */
import { MAX_HEAD, type CallReader, type CallSink, type CallText, type Reading } from './call-text.ts';
import { isRecord, parseJson } from './json.ts';

const nameKeys = ['name', 'tool_name', 'function'];
const argumentKeys = ['arguments', 'parameters', 'args'];
const idKeys = ['id', 'tool_call_id', 'call_id'];
/** Keys of a call and of the objects around it, with which a call without a marker may begin. */
const firstKeys = ['name', 'type', 'function', 'parameters', 'arguments', 'id'];

type Write = (text: string) => void;

/**
 * Reads a JSON value, and passes its text on as it arrives. Line ends and tabs inside strings, which
 * models write as they are, become escapes. False: not JSON.
 */
export function* jsonValue(text: CallText, write: Write): Reading<boolean> {
  const open: string[] = [];
  let next: 'value' | 'first' | 'key' | 'colon' | 'after' = 'value';
  for (;;) {
    const blanks = yield* text.afterBlanks();
    if (blanks > 0) write(text.rest().slice(0, blanks));
    text.skip(blanks);
    const char = yield* text.charAt();
    const closer = open.at(-1);
    if (char === '') return false;
    if (char === closer && (next === 'after' || next === 'first')) {
      open.pop();
      next = 'after';
    } else if (next === 'colon' ? char === ':' : next === 'after' && char === ',') {
      next = next === 'colon' || closer === ']' ? 'value' : 'key';
    } else if (next === 'key' || (next === 'first' && closer === '}')) {
      if (char !== '"' || !(yield* jsonString(text, write))) return false;
      next = 'colon';
      continue;
    } else if (next === 'after' || next === 'colon') return false;
    else if (char === '{' || char === '[') {
      open.push(char === '{' ? '}' : ']');
      next = 'first';
    } else {
      if (!(yield* char === '"' ? jsonString(text, write) : jsonLiteral(text, write))) return false;
      next = 'after';
      if (open.length === 0) return true;
      continue;
    }
    write(char);
    text.skip(1);
    if (open.length === 0) return true;
  }
}

/** Reads the string that begins at the position. */
function* jsonString(text: CallText, write: Write): Reading<boolean> {
  write('"');
  text.skip(1);
  for (;;) {
    const plain = /^[^"\\\0-\x1f]*/.exec(text.rest())![0];
    if (plain !== '') write(plain);
    text.skip(plain.length);
    if (text.length === 0) {
      if (!(yield* text.more())) return false;
      continue;
    }
    const char = yield* text.charAt();
    if (char === '\\') {
      const length = (yield* text.charAt(1)) === 'u' ? 6 : 2;
      if ((yield* text.charAt(length - 1)) === '') return false;
      const escape = text.rest().slice(0, length);
      if (!/^\\(?:["\\/bfnrt]|u[\da-fA-F]{4})$/.test(escape)) return false;
      write(escape);
      text.skip(length);
      continue;
    }
    write(char === '"' ? char : JSON.stringify(char).slice(1, -1));
    text.skip(1);
    if (char === '"') return true;
  }
}

function* jsonLiteral(text: CallText, write: Write): Reading<boolean> {
  const literal = yield* text.run(/[-+.\w]/, Infinity);
  // A number that the end of the answer cuts off may be complete or not.
  if (text.ended || !/^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)$/.test(literal)) return false;
  write(literal);
  return true;
}

/** Reads a JSON value and returns its text; undefined if it is not JSON. */
function* heldJson(text: CallText): Reading<string | undefined> {
  let held = '';
  return (yield* jsonValue(text, (more) => (held += more))) ? held : undefined;
}

/**
 * Reads the arguments of the open call. Some models write the object as a string, or null for no
 * arguments.
 */
function* readArguments(text: CallText, write: Write): Reading<boolean> {
  if ((yield* text.blanks()) === '{') return yield* jsonValue(text, write);
  const held = yield* heldJson(text);
  if (held === undefined) return false;
  const value = parseJson(held);
  const object = value === null || value === '' ? '{}' : typeof value === 'string' && isRecord(parseJson(value)) ? value : undefined;
  if (object !== undefined) write(object);
  return object !== undefined;
}

/** Form of the objects that are calls. */
interface CallForm {
  /** The name may be the only key: `{"name": {arguments}}`. */
  readonly nameIsKey?: boolean;
  /** Only objects with arguments, of an offered tool, are calls. */
  readonly strict?: boolean;
}

/** The parts of a call object found so far. */
interface Found {
  named: boolean;
  /** Arguments that came before the name. */
  held: string | undefined;
  id: string | undefined;
  args: boolean;
}

/** Reads one call object and closes the call. */
function* callObject(text: CallText, sink: CallSink, form: CallForm): Reading<boolean> {
  const found: Found = { named: false, held: undefined, id: undefined, args: false };
  if (!(yield* callMembers(text, sink, form, found)) || !found.named) return false;
  if (found.held !== undefined) sink.write(found.held);
  else if (!found.args) {
    if (form.strict) return false;
    sink.write('{}');
  }
  sink.close();
  return true;
}

function* callMembers(text: CallText, sink: CallSink, form: CallForm, found: Found): Reading<boolean> {
  text.skip(1);
  for (let first = true; ; first = false) {
    if ((yield* text.blanks()) === '}') break;
    if (!first && !(yield* text.eat(','))) return false;
    if ((yield* text.blanks()) !== '"') return false;
    const key = String(parseJson((yield* heldJson(text)) ?? ''));
    yield* text.blanks();
    if (!(yield* text.eat(':'))) return false;
    const next = yield* text.blanks();
    if (argumentKeys.includes(key) && !found.args && found.held === undefined) {
      if (!(yield* memberArguments(text, sink, found))) return false;
    } else if (key === 'function' && next === '{') {
      if (!(yield* callMembers(text, sink, form, found))) return false;
    } else if (form.nameIsKey && first && !found.named && next === '{' && !nameKeys.includes(key)) {
      nameCall(sink, found, key);
      if (!(yield* memberArguments(text, sink, found))) return false;
    } else {
      const held = yield* heldJson(text);
      if (held === undefined) return false;
      const value = parseJson(held);
      if (typeof value !== 'string') continue;
      if (idKeys.includes(key)) {
        found.id ??= value;
        if (found.named) sink.identify(value);
      } else if (nameKeys.includes(key) && value !== '' && !found.named) {
        if (form.strict && !sink.tool(value)) return false;
        nameCall(sink, found, value);
      }
    }
  }
  text.skip(1);
  return true;
}

function nameCall(sink: CallSink, found: Found, name: string): void {
  sink.open(name, found.id);
  found.named = true;
}

function* memberArguments(text: CallText, sink: CallSink, found: Found): Reading<boolean> {
  if (found.named) {
    found.args = true;
    return yield* readArguments(text, (more) => sink.write(more));
  }
  let held = '';
  const read = yield* readArguments(text, (more) => (held += more));
  found.held = held;
  return read;
}

/**
 * Reads JSON calls up to `close`: one value, or several with blanks, `,` or `;` between them. The
 * closing marker may be missing, since it is often the token that ends the turn.
 * @param nameIsKey the form `{"name": {arguments}}`
 */
export function jsonReader(close: string, nameIsKey = false): CallReader {
  return function* (text, sink) {
    for (let calls = 0; ; calls++) {
      let char = yield* text.blanks();
      if (close !== '' && calls > 0 && (yield* text.close(close))) return true;
      while (calls > 0 && (char === ',' || char === ';')) {
        text.skip(1);
        char = yield* text.blanks();
      }
      if (char === '{') {
        if (!(yield* callObject(text, sink, { nameIsKey }))) return false;
      } else if (char !== '[' || !(yield* callList(text, sink, { nameIsKey }))) return false;
    }
  };
}

function* callList(text: CallText, sink: CallSink, form: CallForm): Reading<boolean> {
  text.skip(1);
  for (;;) {
    if ((yield* text.blanks()) !== '{' || !(yield* callObject(text, sink, form))) return false;
    const char = yield* text.blanks();
    if (char !== ',' && char !== ']') return false;
    text.skip(1);
    if (char === ',') continue;
    // The list was read, even if its closing marker does not follow.
    text.keep();
    return true;
  }
}

/**
 * Reader for Llama 3: the whole answer is `{"name": ..., "parameters": ...}` of an offered tool.
 * Other text becomes content at once.
 */
export const bareJson: CallReader = function* (text, sink) {
  if (!(yield* beginsLikeCall(text, sink)) || !(yield* callObject(text, sink, { strict: true }))) return false;
  const end = yield* text.afterBlanks();
  text.skip((yield* text.charAt(end)) === ';' ? end + 1 : end);
  return true;
};

/** Looks at the first key, and at the name if that comes first, without waiting for their ends. */
function* beginsLikeCall(text: CallText, sink: CallSink): Reading<boolean> {
  if ((yield* text.charAt()) !== '{') return false;
  const from = yield* text.afterBlanks(1);
  const key = yield* begunString(text, from, (begun, whole) => firstKeys.some((one) => (whole ? one === begun : one.startsWith(begun))));
  if (key !== 'name') return key !== undefined;
  const colon = yield* text.afterBlanks(from + key.length + 2);
  if ((yield* text.charAt(colon)) !== ':') return false;
  const at = yield* text.afterBlanks(colon + 1);
  return (yield* begunString(text, at, (begun, whole) => sink.tool(begun) !== undefined || (!whole && sink.offers(begun)))) !== undefined;
}

/** The string at an offset, if it is accepted from its first characters on. */
function* begunString(text: CallText, offset: number, accepts: (begun: string, whole: boolean) => boolean): Reading<string | undefined> {
  if ((yield* text.charAt(offset)) !== '"') return undefined;
  for (let at = offset + 1; ; at++) {
    const begun = text.rest().slice(offset + 1, at);
    if (!accepts(begun, false)) return undefined;
    const char = yield* text.charAt(at);
    if (char === '"') return accepts(begun, true) ? begun : undefined;
    if (char === '') return undefined;
  }
}

/**
 * Reads a name, `separator`, the arguments as JSON, and the closing markers, each of which may be
 * missing.
 * @param head splits the text before the separator into name and id
 */
export function namedReader(
  separator: RegExp,
  closers: readonly string[],
  head: (text: string) => { name: string; id?: string } | undefined,
): CallReader {
  return function* (text, sink) {
    let found: RegExpExecArray | null;
    while (!(found = separator.exec(text.rest().slice(0, MAX_HEAD + 64))))
      if (text.length > MAX_HEAD + 64 || !(yield* text.more())) return false;
    const named = found.index > MAX_HEAD ? undefined : head(text.rest().slice(0, found.index));
    if (!named || !/^[\w.:/-]+$/.test(named.name)) return false;
    text.skip(found.index + found[0].length);
    sink.open(named.name, named.id);
    const char = yield* text.blanks();
    if (char !== '{' || !(yield* jsonValue(text, (more) => sink.write(more)))) return false;
    sink.close();
    for (const close of closers) yield* text.close(close);
    return true;
  };
}
