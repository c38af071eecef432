/**
 * End of a JSON value in text that may be incomplete: the offset after it, or the reason why no end
 * was found.
 */
export type JsonEnd = { readonly end: number } | 'more' | 'bad';

/**
 * Finds the end of the JSON value that starts at `from` by its brackets and strings only.
 * JSON.parse validates it later.
 */
export function jsonEnd(text: string, from: number): JsonEnd {
  const first = text[from];
  if (first === undefined) return 'more';
  if (first === '"') return stringEnd(text, from);
  if (first !== '{' && first !== '[') {
    const literal = /[-+.\w]*/y;
    literal.lastIndex = from;
    const length = literal.exec(text)?.[0].length ?? 0;
    if (length === 0) return 'bad';
    return from + length === text.length ? 'more' : { end: from + length };
  }
  const closers: string[] = [];
  for (let i = from; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      const end = stringEnd(text, i);
      if (typeof end === 'string') return end;
      i = end.end - 1;
    } else if (char === '{') closers.push('}');
    else if (char === '[') closers.push(']');
    else if (char === '}' || char === ']') {
      if (closers.pop() !== char) return 'bad';
      if (closers.length === 0) return { end: i + 1 };
    } else if (char === '<' || char === '|' || char === '`') return 'bad';
  }
  return 'more';
}

function stringEnd(text: string, from: number): JsonEnd {
  for (let i = from + 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '"') return { end: i + 1 };
  }
  return 'more';
}

/** Parses `text`; undefined if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The source text of each member of a valid JSON object (or of each element of a list, by index).
 * Numbers keep all their digits. A call's arguments stay as the model wrote them, which keeps the
 * next prompt's prefix the same.
 */
export function jsonMembers(text: string): Map<string, string> {
  const members = new Map<string, string>();
  const isList = text.trimStart().startsWith('[');
  let at = text.search(/[[{]/) + 1;
  for (let index = 0; ; index++) {
    at = skip(text, at);
    if (at >= text.length || text[at] === '}' || text[at] === ']') return members;
    let key = String(index);
    if (!isList) {
      const end = jsonEnd(text, at);
      if (typeof end === 'string') return members;
      key = String(parseJson(text.slice(at, end.end)));
      at = skip(text, end.end);
    }
    const end = jsonEnd(text, at);
    const stop = typeof end === 'string' ? text.length : end.end;
    members.set(key, text.slice(at, stop));
    at = stop;
  }
}

/** Skips blanks, commas and colons. */
function skip(text: string, at: number): number {
  while (at < text.length && ' \n\r\t,:'.includes(text[at])) at++;
  return at;
}

/** Limits for a value in a message: characters shown, and elements or fields read. */
const SHOWN = 80;
const LOOKED_AT = 10;

/** The beginning of a JSON value, for messages. The rest of the value is not read. */
export function shortJson(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(beginning(value, 3));
  return text.length > SHOWN ? `${text.slice(0, SHOWN - 3)}...` : text;
}

function beginning(value: unknown, levels: number): unknown {
  if (typeof value === 'string') return value.slice(0, SHOWN);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return Array.isArray(value) ? [] : {};
  if (Array.isArray(value)) return value.slice(0, LOOKED_AT).map((item) => beginning(item, levels - 1));
  const some: [string, unknown][] = [];
  for (const key in value) {
    if (some.length === LOOKED_AT) break;
    if (Object.hasOwn(value, key)) some.push([key.slice(0, SHOWN), beginning((value as Record<string, unknown>)[key], levels - 1)]);
  }
  return Object.fromEntries(some);
}
