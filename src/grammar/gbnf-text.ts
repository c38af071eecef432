/** Writes parts of GBNF. */

const hex = (code: number, digits: number): string => code.toString(16).toUpperCase().padStart(digits, '0');

/** The literal `"..."` for a text. */
export function gbnfText(text: string): string {
  let out = '"';
  for (const c of text) {
    const code = c.codePointAt(0)!;
    if (c === '"' || c === '\\') out += `\\${c}`;
    else if (code < 0x20 || code === 0x7f) out += `\\x${hex(code, 2)}`;
    else out += c;
  }
  return `${out}"`;
}

/** One character of a set, as a class `[...]` or a literal, for code point ranges, flat [low, high, ...]. */
export function gbnfClass(ranges: readonly number[]): string {
  if (ranges.length === 2 && ranges[0] === ranges[1]) return gbnfText(String.fromCodePoint(ranges[0]));
  const one = (code: number): string => {
    const c = String.fromCodePoint(code);
    if (/[A-Za-z0-9_ ]/.test(c)) return c;
    return code <= 0xff ? `\\x${hex(code, 2)}` : code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  };
  let out = '[';
  for (let i = 0; i < ranges.length; i += 2)
    out += ranges[i] === ranges[i + 1] ? one(ranges[i]) : `${one(ranges[i])}-${one(ranges[i + 1])}`;
  return `${out}]`;
}

/** A text as one item: in parentheses, unless it is a literal, a class or a name. */
export const gbnfItem = (text: string): string =>
  /^(?:"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|[A-Za-z0-9-]+)$/.test(text) ? text : `(${text})`;

/** Alternatives as part of a sequence; an empty one makes the others optional. */
export function gbnfChoice(options: readonly string[]): string {
  const given = new Set(options);
  const optional = given.delete('');
  const text = [...given].join(' | ');
  if (given.size === 0) return '';
  return optional ? `${gbnfItem(text)}?` : given.size === 1 ? text : `(${text})`;
}

/** A text from `min` to `max` times, in the shortest form. */
export function gbnfRepeat(text: string, min: number, max: number): string {
  if (max === 0 || text === '') return '';
  if (min === 1 && max === 1) return text;
  const item = gbnfItem(text);
  if (min === 0 && max === 1) return `${item}?`;
  if (max === Infinity) return min === 0 ? `${item}*` : min === 1 ? `${item}+` : `${item}{${min},}`;
  return min === max ? `${item}{${min}}` : `${item}{${min},${max}}`;
}

/** Parts one after another. */
export const gbnfSequence = (...parts: string[]): string => parts.filter((part) => part !== '').join(' ');
