/** Readers of calls in XML-like notations, whose arguments are elements with bare text. */
import { tailLength } from '../generate/stop.ts';
import { within, type Subschema, type ValueKind } from './argument-types.ts';
import type { XmlSyntax } from '../grammar/calls/notation.ts';
import { BareValue } from './bare-value.ts';
import { MAX_HEAD, type CallReader, type CallSink, type CallText, type Reading } from './call-text.ts';
import type { ChatTool } from './messages.ts';

/** `<function=name><parameter=key>value</parameter></function>` (Qwen3-Coder, Seed-OSS, Nemotron 3). */
export const functionXml: XmlSyntax = {
  call: '<function=',
  named: '>',
  callEnd: '</function>',
  argument: '<parameter=',
  keyed: '>',
  argumentEnd: '</parameter>',
  trimLines: true,
  python: true,
};

/**
 * `<invoke name="name"><parameter name="key">value</parameter></invoke>` with a prefix of the tags
 * (MiniMax, DeepSeek 3.2, Muse).
 */
export const invokeXml = (prefix: string): XmlSyntax => ({
  call: `<${prefix}invoke name="`,
  named: '>',
  callEnd: `</${prefix}invoke>`,
  argument: `<${prefix}parameter name="`,
  keyed: '>',
  argumentEnd: `</${prefix}parameter>`,
  trimLines: false,
  python: false,
});

/**
 * `<function name="name"><param name="key">value</param></function>`, values with tags or lines in
 * CDATA sections (MiniCPM 5).
 */
export const paramXml: XmlSyntax = {
  call: '<function name="',
  named: '>',
  callEnd: '</function>',
  argument: '<param name="',
  keyed: '>',
  argumentEnd: '</param>',
  trimLines: true,
  python: true,
  cdata: true,
};

/**
 * `name<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM, Ling, Laguna, Spark).
 * @param suffix of every tag (Hunyuan)
 */
export const keyValueXml = (suffix = ''): XmlSyntax => ({
  call: '',
  named: '',
  callEnd: '',
  afterName: `<tool_sep${suffix}>`,
  argument: `<arg_key${suffix}>`,
  keyed: `</arg_key${suffix}>`,
  value: `<arg_value${suffix}>`,
  argumentEnd: `</arg_value${suffix}>`,
  trimLines: false,
  python: false,
});

/** Kimi K3's elements, written with `<|open|>`, `<|close|>` and `<|sep|>`. */
export const openXml: XmlSyntax = {
  call: '<|open|>call tool="',
  named: '<|sep|>',
  callEnd: '<|close|>call<|sep|>',
  argument: '<|open|>argument key="',
  keyed: '<|sep|>',
  argumentEnd: '<|close|>argument<|sep|>',
  trimLines: false,
  python: false,
};

/** The schema of a tool's arguments. */
export const argumentsOf = (tool: ChatTool | undefined): Subschema => {
  const schema = tool?.function.parameters;
  return { schema, root: schema };
};

/** A notation with the markers around its calls. */
interface Framed extends XmlSyntax {
  readonly start: string;
  readonly close: string;
}

/**
 * Reads XML-like calls up to `close`.
 * @param begun the start marker was the beginning of the call itself, which ends the reading.
 * `close` may follow
 */
export function xmlReader(close: string, syntax: XmlSyntax, begun = false): CallReader {
  const framed: Framed = { ...syntax, close, start: close.replace('</', '<').replace('<|close|>', '<|open|>') };
  return function* (text, sink) {
    for (let calls = 0; ; calls++) {
      if (!begun) {
        yield* text.blanks();
        if (calls > 0 && (yield* text.close(close))) return true;
        if (!(yield* text.eat(syntax.call))) return false;
      }
      if (!(yield* readCall(text, sink, framed))) return false;
      if (!begun) continue;
      if (close !== '') yield* text.close(close);
      return true;
    }
  };
}

function* readName(text: CallText, { named, afterName }: Framed): Reading<string | undefined> {
  if (named !== '') {
    const head = yield* text.until(named);
    return head === undefined ? undefined : /^([^<>\s"]+)(?:"[^<>]*)?$/.exec(head)?.[1];
  }
  yield* text.blanks();
  const name = yield* text.run(/[\w.:/-]/);
  // A name may go on after the end of the answer.
  if ((yield* text.blanks()) === '') return undefined;
  if (afterName !== undefined) yield* text.eat(afterName);
  return name === '' ? undefined : name;
}

/** Reads a call from its name on. */
function* readCall(text: CallText, sink: CallSink, syntax: Framed): Reading<boolean> {
  const name = yield* readName(text, syntax);
  if (name === undefined) return false;
  const schema = argumentsOf(sink.tool(name));
  sink.open(name);
  for (let given = 0; ; given++) {
    yield* text.blanks();
    if (yield* text.eat(syntax.argument)) {
      const slot = yield* readKey(text, syntax);
      if (!slot) return false;
      sink.write(`${given === 0 ? '{' : ', '}${JSON.stringify(slot.key)}: `);
      const value = new BareValue(within(schema, slot.key), slot.type, syntax, (json) => sink.write(json));
      if (!(yield* readValue(text, syntax, value))) return false;
    } else {
      const ended = syntax.callEnd !== '' && (yield* text.eat(syntax.callEnd));
      if (!ended && (syntax.close === '' || !(yield* text.has(syntax.close)))) return false;
      sink.write(given === 0 ? '{}' : '}');
      sink.close();
      return true;
    }
  }
}

const KINDS: Readonly<Record<string, ValueKind>> = {
  string: 'string',
  number: 'number',
  integer: 'number',
  boolean: 'boolean',
  null: 'null',
  object: 'object',
  array: 'array',
};

/** Reads the key of an argument, and the type that the call names (DeepSeek, Kimi K3). */
function* readKey(text: CallText, syntax: Framed): Reading<{ key: string; type: ValueKind | undefined } | undefined> {
  const head = yield* text.until(syntax.keyed);
  if (head === undefined) return undefined;
  if (syntax.value !== undefined) {
    yield* text.blanks();
    return (yield* text.eat(syntax.value)) ? { key: head, type: undefined } : undefined;
  }
  if (!syntax.argument.endsWith('"')) return /^[^<>\r\n]+$/.test(head) ? { key: head, type: undefined } : undefined;
  const found = /^([^"]+)"(?: (string|type)="(\w*)")?$/.exec(head);
  if (!found) return undefined;
  const [, key, attribute, word] = found;
  const type = attribute === 'string' ? (word === 'true' ? 'string' : undefined) : KINDS[word];
  return { key, type };
}

/** Reads a value and the end of its argument. */
function* readValue(text: CallText, syntax: Framed, value: BareValue): Reading<boolean> {
  if (syntax.cdata) {
    const at = yield* text.afterBlanks();
    if (yield* text.has('<![CDATA[', at)) {
      text.skip(at + '<![CDATA['.length);
      const after = function* (offset: number): Reading<After> {
        const end = yield* text.afterBlanks(offset);
        if (!(yield* text.has(syntax.argumentEnd, end))) return 'text';
        return yield* afterArgument(text, syntax, end + syntax.argumentEnd.length);
      };
      if (!(yield* readText(text, ']]>', '', after, value))) return false;
      yield* text.blanks();
      text.skip(syntax.argumentEnd.length);
      return true;
    }
  }
  const after = (offset: number): Reading<After> => afterArgument(text, syntax, offset);
  return yield* readText(text, syntax.argumentEnd, syntax.call === '' ? syntax.start : syntax.call, after, value);
}

/**
 * Meaning of an end marker, from the text after it. `argument`, `call`: another argument or the end
 * of the call follows. `inner`: the end of a call inside the value follows. `text`: the marker is
 * part of the value.
 */
export type After = 'argument' | 'call' | 'inner' | 'text';

function* afterArgument(text: CallText, syntax: Framed, offset: number): Reading<After> {
  const { argument, keyed, callEnd, close } = syntax;
  let at = yield* text.afterBlanks(offset);
  if ((yield* text.charAt(at)) === '') return 'call';
  if (yield* text.has(argument, at)) {
    const head = yield* text.before(keyed, MAX_HEAD, at + argument.length);
    return head !== undefined || text.ended ? 'argument' : 'text';
  }
  let ends = 0;
  for (const end of [callEnd, close]) {
    if (end === '' || !(yield* text.has(end, at))) continue;
    at = yield* text.afterBlanks(at + end.length);
    ends++;
  }
  if (ends === 0) return text.ended ? 'call' : 'text';
  for (const end of [syntax.argumentEnd, callEnd, close]) if (end !== '' && (yield* text.has(end, at))) return 'inner';
  return 'call';
}

/** Maximum text that waits for a decision between the end of a value and the end of a call in it. */
const MOST_HELD = 1 << 16;

/**
 * Passes text on up to `close`, if what follows fits.
 *
 * A value may contain whole calls. After `opener` in a value, the next end of a call is taken as that
 * of the inner call. The text from there on waits: if no other end follows, it was the value's.
 */
export function* readText(
  text: CallText,
  close: string,
  opener: string,
  after: (offset: number) => Reading<After>,
  value: BareValue,
): Reading<boolean> {
  const marks = [close, opener].filter((mark) => mark !== '');
  // One search for all marks: to look for each would scan to the end of the text for a rare one.
  const search = new RegExp(marks.map((mark) => mark.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'), 'g');
  let inner = 0;
  /** The text waits, and the position is at an end that may be the value's. */
  let waits = false;
  let at = 0;
  const pass = (length: number): void => {
    at = waits ? length : 0;
    if (waits) return;
    value.push(text.rest().slice(0, length));
    text.skip(length);
  };
  const end = (offset: number): true => {
    value.push(text.rest().slice(0, offset));
    text.skip(offset + close.length);
    value.end();
    return true;
  };
  for (;;) {
    const rest = text.rest();
    search.lastIndex = at;
    const found = search.exec(rest);
    if (!found) pass(Math.max(at, rest.length - tailLength(rest.slice(-64), marks)));
    if (waits && (found?.index ?? at) > MOST_HELD) return end(0);
    if (!found) {
      if (yield* text.more()) continue;
      if (waits) return end(0);
      value.cut();
      return false;
    }
    if (found[0] === opener) {
      inner++;
      pass(found.index + opener.length);
      continue;
    }
    pass(found.index);
    const offset: number = waits ? at : 0;
    const next: After = yield* after(offset + close.length);
    const fits: boolean = next === 'argument' || next === 'call';
    if (fits && inner === 0) return end(offset);
    waits ||= fits;
    if (inner > 0 && next !== 'argument' && next !== 'text') inner--;
    pass(offset + close.length);
  }
}
