/** Readers of tool calls in the notations that models write: JSON between markers, a name before its arguments, XML-like elements. */
import { isRecord, jsonEnd, jsonMembers, parseJson } from './json.ts';
import type { ChatTool } from './messages.ts';

/** A call as a model wrote it; `arguments` is the JSON text of an object. */
export interface ParsedCall {
  readonly id: string | undefined;
  readonly name: string;
  readonly arguments: string;
}

/** What a reader makes of the text after its start marker: calls and where they end, wait for more text, or no call at all. */
export type CallRead = { readonly calls: readonly ParsedCall[]; readonly end: number } | 'more' | 'bad';

/**
 * Reads calls from the start of `text`. An answer other than 'more' must hold for every continuation of `text`.
 * @param final the text is over: decide with what is there
 */
export type CallReader = (text: string, final: boolean, tools: readonly ChatTool[]) => CallRead;

const nameKeys = ['name', 'tool_name', 'function'];
const argumentKeys = ['arguments', 'parameters', 'args'];
const idKeys = ['id', 'tool_call_id', 'call_id'];

/** The calls in one JSON value: an object or a list of objects. Undefined where one of them is not shaped like a call. */
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

/** Arguments as an object's text: some models write the object as a string, or null for none. */
function argumentsOf(text: string): string | undefined {
  const value = parseJson(text);
  if (value === null || value === '') return '{}';
  if (typeof value === 'string') return isRecord(parseJson(value)) ? value : undefined;
  return isRecord(value) ? text : undefined;
}

/** `word` at `at`? 'more' where the text ends inside it. */
export function follows(text: string, at: number, word: string): boolean | 'more' {
  const there = text.slice(at, at + word.length);
  if (there === word) return true;
  return there.length < word.length && word.startsWith(there) ? 'more' : false;
}

const blank = (text: string, at: number): number => at + (/^\s*/.exec(text.slice(at))?.[0].length ?? 0);

/**
 * JSON calls up to `close`: one value, or several with blanks, `,` or `;` between them. A missing closing marker is
 * forgiven, since it is often the token that ends the turn.
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

/** No call has a longer name, id and markers; text without a separator by then (separators have < 64 characters) is no call. */
const maxHead = 512;

/**
 * A name, `separator`, then the arguments as JSON, then the closing markers, each of which may be missing.
 * @param head reads what stands before the separator into name and id
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

/**
 * A value written as bare text (XML-like formats): the tool's schema says whether it is a string; without a schema,
 * text that is JSON is taken as JSON.
 */
function valueOf(text: string, tool: ChatTool | undefined, key: string): string {
  const properties = (tool?.function.parameters as { properties?: Record<string, { type?: unknown }> } | undefined)?.properties;
  const type = properties?.[key]?.type;
  const parsed = parseJson(text);
  return type === 'string' || parsed === undefined ? JSON.stringify(text) : text.trim();
}

const objectText = (entries: readonly (readonly [string, string])[]): string =>
  `{${entries.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`;

/**
 * A call in an XML-like notation: `outer` matches one call (name, inside), `inner` one argument (name, text, and optionally `true` for a string).
 * What a model writes may be a client's wish: names and tags end at the next `<`, and where no end of an element follows, none is looked for again.
 */
interface XmlSyntax {
  /** How calls and arguments end. */
  readonly ends: readonly [outer: RegExp | undefined, inner: RegExp];
  readonly outer: RegExp;
  readonly inner: RegExp;
  readonly trimLines: boolean;
}

/** `<function=name><parameter=key>value</parameter></function>` (Qwen3-Coder, Seed-OSS, Nemotron 3). */
export const functionXml: XmlSyntax = {
  ends: [/<\/function>/g, /<\/parameter>/g],
  outer: /<function=([^<>\s]+)>([\s\S]*?)<\/function>/g,
  inner: /<parameter=([^<>\s]+)>([\s\S]*?)<\/parameter>/g,
  trimLines: true,
};
/** `<invoke name="name"><parameter name="key">value</parameter></invoke>` with any prefix (MiniMax, DeepSeek 3.2, Muse). */
export const invokeXml: XmlSyntax = {
  ends: [/<\/[^\s<>]*?invoke>/g, /<\/[^\s<>]*?parameter>/g],
  outer: /<[^\s<>]*?invoke name="([^"]+)">([\s\S]*?)<\/[^\s<>]*?invoke>/g,
  inner: /<[^\s<>]*?parameter name="([^"]+)"(?: string="(?:true|false)")?>([\s\S]*?)<\/[^\s<>]*?parameter>/g,
  trimLines: false,
};
/** `<function name="name"><param name="key">value</param></function>` (MiniCPM 5). */
export const paramXml: XmlSyntax = {
  ends: [/<\/function>/g, /<\/param>/g],
  outer: /<function name="([^"]+)">([\s\S]*?)<\/function>/g,
  inner: /<param name="([^"]+)">([\s\S]*?)<\/param>/g,
  trimLines: true,
};
/** `name<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM, Ling, Laguna, Spark); the tags may carry a suffix (Hunyuan). */
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

/** The text up to the last of these ends: behind it, a search for one would read to the end of the text from every beginning of an element. */
function upToLast(text: string, end: RegExp | undefined): string {
  if (end === undefined) return text;
  let to = 0;
  for (const { index, 0: found } of text.matchAll(end)) to = index + found.length;
  return text.slice(0, to);
}

/** All calls in `body`, which is complete; none where a part of one is not understood. */
function xmlCalls(body: string, { ends: [end, innerEnd], outer, inner, trimLines }: XmlSyntax, tools: readonly ChatTool[]): ParsedCall[] {
  const found = [...upToLast(body, end).matchAll(outer)].map(([, name, inside]) => [name, upToLast(inside, innerEnd), inside] as const);
  const clear = found.every(([, inside, all]) => (inside.replace(inner, '') + all.slice(inside.length)).trim() === '');
  if (!clear) return [];
  return found.map(([name, inside]) => {
    const tool = tools.find((candidate) => candidate.function.name === name);
    const entries = [...inside.matchAll(inner)].map(([whole, key, value]) => {
      const text = trimLines ? value.replace(/^\n|\n$/g, '') : value;
      return [key, / string="true"/.test(whole.slice(0, whole.indexOf('>'))) ? JSON.stringify(text) : valueOf(text, tool, key)] as const;
    });
    return { id: undefined, name, arguments: objectText(entries) };
  });
}

/** Everything up to `close` as XML-like calls. Where the start marker is part of the first call's notation, so is `close`: `around` says so. */
export function xmlReader(close: string, syntax: XmlSyntax, around = ''): CallReader {
  return (text, final, tools) => {
    const at = text.indexOf(close);
    if (at < 0 && !final) return 'more';
    const end = at < 0 ? text.length : at + close.length;
    const calls = xmlCalls(around === '' ? text.slice(0, at < 0 ? end : at) : around + text.slice(0, end), syntax, tools);
    return calls.length === 0 ? 'bad' : { calls, end };
  };
}

/** `<tool_call>` as three families write it: JSON (Hermes, Qwen), `<function=...>` (Qwen3-Coder), `name<arg_key>...` (GLM). */
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
