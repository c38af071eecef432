/**
 * Readers of tool calls in the notations that models write: JSON between markers, a name before its
 * arguments, XML-like elements.
 */
import { isRecord, jsonEnd, jsonMembers, parseJson } from './json.ts';
import type { ChatTool } from './messages.ts';

/** A call as a model wrote it; `arguments` is the JSON text of an object. */
export interface ParsedCall {
  readonly id: string | undefined;
  readonly name: string;
  readonly arguments: string;
}

/**
 * Result of a reader on the text after its start marker: the calls and their end, 'more' text
 * needed, or 'bad' (not a call).
 */
export type CallRead = { readonly calls: readonly ParsedCall[]; readonly end: number } | 'more' | 'bad';

/**
 * Reads calls from the start of `text`. A result other than 'more' must hold for every continuation
 * of `text`.
 * @param final the text is complete: decide now
 */
export type CallReader = (text: string, final: boolean, tools: readonly ChatTool[]) => CallRead;

const nameKeys = ['name', 'tool_name', 'function'];
const argumentKeys = ['arguments', 'parameters', 'args'];
const idKeys = ['id', 'tool_call_id', 'call_id'];

/**
 * The calls in one JSON value, which is an object or a list of objects; undefined if one is not
 * shaped like a call.
 */
export function callsOfJson(text: string, nameIsKey = false): ParsedCall[] | undefined {
  const value = parseJson(text);
  if (Array.isArray(value)) {
    const calls = [...jsonMembers(text).values()].map((item) => callOfJson(item, nameIsKey));
    return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
  }
  const call = callOfJson(text, nameIsKey);
  return call && [call];
}

function callOfJson(text: string, nameIsKey: boolean): ParsedCall | undefined {
  const value = parseJson(text);
  if (!isRecord(value)) return undefined;
  if (isRecord(value.function)) return callOfJson(jsonMembers(text).get('function') as string, nameIsKey);
  const members = jsonMembers(text);
  const id = idKeys.map((key) => value[key]).find((found) => typeof found === 'string');
  if (nameIsKey && members.size === 1) {
    const [[name, args]] = members;
    return { id: undefined, name, arguments: argumentsOf(args) ?? '{}' };
  }
  const name = nameKeys.map((key) => value[key]).find((found) => typeof found === 'string' && found !== '');
  if (name === undefined) return undefined;
  const key = argumentKeys.find((candidate) => members.has(candidate));
  const args = key === undefined ? '{}' : argumentsOf(members.get(key) as string);
  return args === undefined ? undefined : { id: id as string | undefined, name: name as string, arguments: args };
}

/**
 * Arguments as the JSON text of an object. Some models write the object as a string, or null for no
 * arguments.
 */
function argumentsOf(text: string): string | undefined {
  const value = parseJson(text);
  if (value === null || value === '') return '{}';
  if (typeof value === 'string') return isRecord(parseJson(value)) ? value : undefined;
  return isRecord(value) ? text : undefined;
}

/** Tells if `word` is at `at`. 'more': the text ends inside the word. */
export function follows(text: string, at: number, word: string): boolean | 'more' {
  const there = text.slice(at, at + word.length);
  if (there === word) return true;
  return there.length < word.length && word.startsWith(there) ? 'more' : false;
}

const blank = (text: string, at: number): number => at + (/^\s*/.exec(text.slice(at))?.[0].length ?? 0);

/**
 * Reads JSON calls up to `close`: one value, or several with blanks, `,` or `;` between them. The
 * closing marker may be missing, since it is often the token that ends the turn.
 * @param nameIsKey the form `{"name": {arguments}}`
 */
export function jsonReader(close: string, nameIsKey = false): CallReader {
  return (text, final) => {
    const calls: ParsedCall[] = [];
    let at = blank(text, 0);
    let end = 0;
    for (;;) {
      if (at === text.length) break;
      if (close !== '') {
        const closed = follows(text, at, close);
        if (closed === true && calls.length > 0) return { calls, end: at + close.length };
        if (closed === 'more' && !final) return 'more';
      }
      if (text[at] !== '{' && text[at] !== '[') {
        if (calls.length === 0) return 'bad';
        if (text[at] !== ',' && text[at] !== ';') return { calls, end };
        at = blank(text, at + 1);
        continue;
      }
      const found = jsonEnd(text, at);
      if (found === 'more' && !final) return 'more';
      const more = typeof found === 'string' ? undefined : callsOfJson(text.slice(at, found.end), nameIsKey);
      if (more === undefined) return calls.length === 0 ? 'bad' : { calls, end };
      calls.push(...more);
      end = (found as { end: number }).end;
      at = blank(text, end);
    }
    if (!final) return 'more';
    return calls.length > 0 ? { calls, end } : 'bad';
  };
}

/**
 * Maximum length of a call's name, id and markers. Longer text without a separator (separators have
 * fewer than 64 characters) is not a call.
 */
export const maxHead = 512;

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
  return (text, final) => {
    const found = separator.exec(text);
    if (!found) return final || text.length > maxHead + 64 ? 'bad' : 'more';
    const named = found.index > maxHead ? undefined : head(text.slice(0, found.index));
    if (!named || !/^[\w.:/-]+$/.test(named.name)) return 'bad';
    const at = blank(text, found.index + found[0].length);
    if (at === text.length) return final ? 'bad' : 'more';
    if (text[at] !== '{') return 'bad';
    const end = jsonEnd(text, at);
    if (typeof end === 'string') return end === 'more' && !final ? 'more' : 'bad';
    const args = text.slice(at, end.end);
    if (!isRecord(parseJson(args))) return 'bad';
    let stop = end.end;
    for (const close of closers) {
      const tail = blank(text, stop);
      const closed = tail === text.length ? 'more' : follows(text, tail, close);
      if (closed === 'more' && !final) return 'more';
      if (closed === true) stop = tail + close.length;
    }
    return { calls: [{ id: named.id, name: named.name, arguments: args }], end: stop };
  };
}

/** The parts of a JSON schema that decide the type of bare text. */
interface ValueSchema {
  readonly type?: unknown;
  readonly properties?: Readonly<Record<string, ValueSchema>>;
  readonly items?: ValueSchema;
}

const schemaOf = (tool: ChatTool | undefined): ValueSchema | undefined => tool?.function.parameters as ValueSchema | undefined;

/**
 * JSON of a value written as bare text (XML-like formats). A schema of type string keeps the text.
 * Otherwise, text that is valid JSON is taken as JSON.
 */
function valueOf(text: string, schema: ValueSchema | undefined): string {
  return schema?.type === 'string' || parseJson(text) === undefined ? JSON.stringify(text) : text.trim();
}

const objectText = (entries: readonly (readonly [string, string])[]): string =>
  `{${entries.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`;

/**
 * An XML-like notation of calls. `outer` matches one call (name, inside). `inner` matches one
 * argument (name, text, and optionally `true` for a string).
 *
 * Hostile text must not take quadratic time. So names and tags end at the next `<`, and text after
 * the last closing tag is not searched.
 */
interface XmlSyntax {
  /** Closing tags of calls and of arguments. */
  readonly ends: readonly [outer: RegExp | undefined, inner: RegExp];
  readonly outer: RegExp;
  readonly inner: RegExp;
  /** Values stand on their own lines: the line breaks around a value are not part of it. */
  readonly trimLines: boolean;
  /** Values may be in CDATA sections. */
  readonly cdata?: boolean;
}

/**
 * `<function=name><parameter=key>value</parameter></function>` (Qwen3-Coder, Seed-OSS, Nemotron 3).
 */
export const functionXml: XmlSyntax = {
  ends: [/<\/function>/g, /<\/parameter>/g],
  outer: /<function=([^<>\s]+)>([\s\S]*?)<\/function>/g,
  inner: /<parameter=([^<>\s]+)>([\s\S]*?)<\/parameter>/g,
  trimLines: true,
};
/**
 * `<invoke name="name"><parameter name="key">value</parameter></invoke>` with any prefix (MiniMax,
 * DeepSeek 3.2, Muse).
 */
export const invokeXml: XmlSyntax = {
  ends: [/<\/[^\s<>]*?invoke>/g, /<\/[^\s<>]*?parameter>/g],
  outer: /<[^\s<>]*?invoke name="([^"]+)">([\s\S]*?)<\/[^\s<>]*?invoke>/g,
  inner: /<[^\s<>]*?parameter name="([^"]+)"(?: string="(?:true|false)")?>([\s\S]*?)<\/[^\s<>]*?parameter>/g,
  trimLines: false,
};
/**
 * `<function name="name"><param name="key">value</param></function>`, values with tags or lines in
 * CDATA sections (MiniCPM 5).
 */
export const paramXml: XmlSyntax = {
  ends: [/<\/function>/g, /<\/param>/g],
  outer: /<function name="([^"]+)">([\s\S]*?)<\/function>/g,
  inner: /<param name="([^"]+)">([\s\S]*?)<\/param>/g,
  trimLines: true,
  cdata: true,
};
/**
 * `name<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM, Ling, Laguna, Spark); the tags may
 * carry a suffix (Hunyuan).
 */
export const keyValueXml: XmlSyntax = {
  ends: [undefined, /<\/arg_value[^<>]*>/g],
  outer: /^\s*([^<>\s{}[\]]+)\s*(?:<tool_sep[^<>]*>)?([\s\S]*)$/g,
  inner: /<arg_key[^<>]*>([^<]*)<\/arg_key[^<>]*>\s*<arg_value[^<>]*>([\s\S]*?)<\/arg_value[^<>]*>/g,
  trimLines: false,
};

/** Kimi K3's elements, written with `<|open|>`, `<|close|>` and `<|sep|>`. */
export const openXml: XmlSyntax = {
  ends: [/<\|close\|>call<\|sep\|>/g, /<\|close\|>argument<\|sep\|>/g],
  outer: /<\|open\|>call tool="([^"]+)"[^<]*<\|sep\|>([\s\S]*?)<\|close\|>call<\|sep\|>/g,
  inner: /<\|open\|>argument key="([^"]+)"[^<]*<\|sep\|>([\s\S]*?)<\|close\|>argument<\|sep\|>/g,
  trimLines: false,
};

/**
 * Returns the text up to the last match of `end`. In the text after it, every opening tag would
 * start a search to the end of the text.
 */
function upToLast(text: string, end: RegExp | undefined): string {
  if (end === undefined) return text;
  let to = 0;
  for (const { index, 0: found } of text.matchAll(end)) to = index + found.length;
  return text.slice(0, to);
}

/**
 * Replaces each `<` inside CDATA sections by another character, so that no tag is found in them. An
 * unfinished section extends to the end.
 */
function hideCdata(text: string): string {
  const ended = upToLast(text, /\]\]>/g);
  const hide = (part: string): string => part.slice(0, 1) + part.slice(1).replaceAll('<', '\0');
  return ended.replace(/<!\[CDATA\[[\s\S]*?\]\]>/g, hide) + text.slice(ended.length).replace(/<!\[CDATA\[[\s\S]*/, hide);
}

const cdataText = (value: string): string => value.replace(/^\s*<!\[CDATA\[([\s\S]*)\]\]>\s*$/, '$1').replaceAll('\0', '<');

/** All calls in `body`, which is complete; none if a part of it is not understood. */
function xmlCalls(
  body: string,
  { ends: [end, innerEnd], outer, inner, trimLines, cdata }: XmlSyntax,
  tools: readonly ChatTool[],
): ParsedCall[] {
  const found = [...upToLast(body, end).matchAll(outer)].map(([, name, inside]) => [name, upToLast(inside, innerEnd), inside] as const);
  const clear = found.every(([, inside, all]) => (inside.replace(inner, '') + all.slice(inside.length)).trim() === '');
  if (!clear) return [];
  return found.map(([name, inside]) => {
    const schema = schemaOf(tools.find((tool) => tool.function.name === name));
    const entries = [...inside.matchAll(inner)].map(([whole, key, written]) => {
      const value = cdata ? cdataText(written) : written;
      const text = trimLines && value.startsWith('\n') ? value.slice(1).replace(/\n$/, '') : value;
      return [
        key,
        / string="true"/.test(whole.slice(0, whole.indexOf('>'))) ? JSON.stringify(text) : valueOf(text, schema?.properties?.[key]),
      ] as const;
    });
    return { id: undefined, name, arguments: objectText(entries) };
  });
}

/**
 * Reads everything up to `close` as XML-like calls.
 * @param around the start marker, if start marker and `close` are themselves part of the call's
 * notation
 */
export function xmlReader(close: string, syntax: XmlSyntax, around = ''): CallReader {
  return (given, final, tools) => {
    const text = syntax.cdata ? hideCdata(given) : given;
    const at = text.indexOf(close);
    if (at < 0 && !final) return 'more';
    const end = at < 0 ? text.length : at + close.length;
    const calls = xmlCalls(around === '' ? text.slice(0, at < 0 ? end : at) : around + text.slice(0, end), syntax, tools);
    return calls.length === 0 ? 'bad' : { calls, end };
  };
}

/** An open element of {@link elementReader}: its schema, and the text and elements in it so far. */
interface Element {
  readonly tag: string;
  readonly schema: ValueSchema | undefined;
  readonly at: number;
  readonly text: string;
  readonly children: (readonly [string, string])[];
}

/** Maximum nesting of elements; each is a list or an object in an argument. */
const MAX_ELEMENTS = 200;

/**
 * Reader for MiniMax M3: each argument is an element of its name, and lists have `<item>` elements.
 * `mark` precedes every tag, so text may contain tags.
 */
export function elementReader(mark: string, end: string): CallReader {
  const close = mark + end;
  return (text, final, tools) => {
    const at = text.indexOf(close);
    if (at < 0 && !final) return 'more';
    const calls = elementCalls(text.slice(0, at < 0 ? text.length : at).split(mark), mark, tools);
    return calls.length === 0 ? 'bad' : { calls, end: at < 0 ? text.length : at + close.length };
  };
}

/** The calls in a text that was split at its marks; none if one of them is not understood. */
function elementCalls(parts: readonly string[], mark: string, tools: readonly ChatTool[]): ParsedCall[] {
  const calls: ParsedCall[] = [];
  const open: Element[] = [];
  if (parts[0].trim() !== '') return [];
  for (let at = 1; at < parts.length; at++) {
    const found = /^<(\/?)(?:invoke name="([^"<>]+)"|([^<>\s"/]+))>/.exec(parts[at]);
    if (!found) return [];
    const [tagged, slash, name, tag = 'invoke'] = found;
    const text = parts[at].slice(tagged.length);
    const top = open.at(-1);
    if (slash === '') {
      if (open.length === MAX_ELEMENTS || (open.length === 0) !== (name !== undefined)) return [];
      const schema =
        name === undefined
          ? tag === 'item'
            ? top?.schema?.items
            : top?.schema?.properties?.[tag]
          : schemaOf(tools.find((tool) => tool.function.name === name));
      open.push({ tag: name ?? tag, schema, at, text, children: [] });
      continue;
    }
    open.pop();
    if (!top || text.trim() !== '' || (open.length === 0 ? tag !== 'invoke' : tag !== top.tag)) return [];
    if (open.length > 0)
      open[open.length - 1].children.push([
        tag,
        elementText(top, [top.text, ...(top.schema?.type === 'string' ? parts.slice(top.at + 1, at) : [])].join(mark)),
      ]);
    else calls.push({ id: undefined, name: top.tag, arguments: objectText(top.children) });
  }
  return open.length === 0 ? calls : [];
}

/**
 * An element as JSON.
 * @param text all text inside it, for elements of type string
 */
function elementText({ schema, children }: Element, text: string): string {
  if (schema?.type === 'string' || children.length === 0) return valueOf(text, schema);
  const isList = schema?.type === 'array' || (schema?.type !== 'object' && children.every(([tag]) => tag === 'item'));
  return isList ? `[${children.map(([, value]) => value).join(', ')}]` : objectText(children);
}

/**
 * `<tool_call>` as three families write it: JSON (Hermes, Qwen), `<function=...>` (Qwen3-Coder),
 * `name<arg_key>...` (GLM).
 */
export function taggedReader(close: string): CallReader {
  const json = jsonReader(close);
  const xml = xmlReader(close, functionXml);
  const keyed = xmlReader(close, keyValueXml);
  return (text, final, tools) => {
    const at = blank(text, 0);
    if (at === text.length) return final ? 'bad' : 'more';
    if (text[at] === '{' || text[at] === '[') return json(text, final, tools);
    if (text[at] === '<') {
      const opened = follows(text, at, '<function=');
      return opened === true ? xml(text, final, tools) : opened === 'more' && !final ? 'more' : 'bad';
    }
    return /^[\w.:-]+\s*(<|$)/.test(text.slice(at)) ? keyed(text, final, tools) : 'bad';
  };
}
