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

/** The class `[...]` for code point ranges, flat [low, high, ...]. */
export function gbnfClass(ranges: readonly number[]): string {
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

/** Alternatives as one item; undefined without alternatives. */
export function gbnfChoice(options: readonly (string | undefined)[]): string | undefined {
  const given = [...new Set(options.filter((option) => option !== undefined))];
  return given.length <= 1 ? given[0] : `(${given.join(' | ')})`;
}

/** `item{min,max}` in its shortest form. */
export function gbnfRepeat(item: string, min: number, max: number): string {
  if (max === 0) return '""';
  if (min === 1 && max === 1) return item;
  if (min === 0 && max === 1) return `${item}?`;
  if (max === Infinity) return min === 0 ? `${item}*` : min === 1 ? `${item}+` : `${item}{${min},}`;
  return min === max ? `${item}{${min}}` : `${item}{${min},${max}}`;
}
