/** `'{} {name:>8}'.format(...)`: Python's format strings and format specifications. */
import { floatDigits, grouped, intDigits, isNegative, signOf } from './number-format.ts';
import { floatText, toFloat } from './numbers.ts';
import { sliceText, textLength } from './characters.ts';
import { ascii, numberText, repr, str } from './repr.ts';
import { Float, isInt, isNumber, isText, JinjaError, typeName, type Args, type Value, type Runtime } from './values.ts';

/** Depth of replacement fields within format specifications. */
const DEPTH = 2;

export function strFormat(runtime: Runtime, text: string, args: Args): string {
  return fill(runtime, text, args, { next: 0, numbered: false }, DEPTH);
}

/** State of automatic field numbering. */
interface Numbering {
  next: number;
  numbered: boolean;
}

function fill(runtime: Runtime, text: string, args: Args, numbering: Numbering, depth: number): string {
  if (depth === 0) throw new JinjaError('max string recursion exceeded');
  const parts: string[] = [];
  for (let at = 0; at < text.length;) {
    const char = text[at];
    if (char !== '{' && char !== '}') {
      const end = nextBrace(text, at);
      parts.push(text.slice(at, end));
      at = end;
    } else if (text[at + 1] === char) {
      parts.push(char);
      at += 2;
    } else {
      if (char === '}') throw new JinjaError("single '}' encountered in format string");
      const end = fieldEnd(text, at + 1);
      parts.push(field(runtime, text.slice(at + 1, end), args, numbering, depth));
      at = end + 1;
    }
  }
  return parts.join('');
}

function nextBrace(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '{' && text[at] !== '}') at++;
  return at;
}

function fieldEnd(text: string, from: number): number {
  for (let at = from, open = 1; at < text.length; at++) {
    if (text[at] === '{') open++;
    else if (text[at] === '}' && --open === 0) return at;
  }
  throw new JinjaError("expected '}' before end of string");
}

function field(runtime: Runtime, source: string, args: Args, numbering: Numbering, depth: number): string {
  const [, path, , conversion, , spec] = /^((?:\[[^\]]*\]|[^[!:])*)(!(.?))?(:(.*))?$/s.exec(source) ?? [];
  if (path === undefined) throw new JinjaError('expected ":" after conversion specifier');
  let value = lookUp(runtime, path, args, numbering);
  if (conversion !== undefined) {
    const convert = { r: repr, s: str, a: ascii }[conversion];
    if (!convert) throw new JinjaError(`unknown conversion specifier ${conversion}`);
    value = convert(runtime, value);
  }
  const written = formatValue(runtime, value, spec === undefined ? '' : fill(runtime, spec, args, numbering, depth - 1));
  runtime.read(written.length);
  return written;
}

/** Looks up a field such as `0.name[key]`. */
function lookUp(runtime: Runtime, path: string, args: Args, numbering: Numbering): Value {
  const first = /^[^.[]*/.exec(path)![0];
  let value: Value | undefined;
  if (first === '' || /^\d+$/.test(first)) {
    if (first === '' ? numbering.numbered : numbering.next > 0)
      throw new JinjaError('cannot switch between automatic and manual field numbering');
    if (first !== '') numbering.numbered = true;
    value = args.positional[first === '' ? numbering.next++ : Number(first)];
  } else value = args.named.get(first);
  if (value === undefined) throw new JinjaError(`format() has no argument for {${path}}`);
  for (const [, name, key] of path.slice(first.length).matchAll(/\.([^.[]+)|\[([^\]]*)\]/g))
    value = name === undefined ? runtime.getItem(value, /^\d+$/.test(key) ? Number(key) : key) : runtime.getAttribute(value, name);
  return value;
}

interface Spec {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly prefixed: boolean;
  readonly width: number;
  readonly separator: string;
  readonly precision: number | undefined;
  readonly type: string;
}

function parseSpec(text: string): Spec {
  const match = /^(?:(.)?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su.exec(text);
  if (!match) throw new JinjaError(`invalid format specifier '${text.slice(0, 40)}'`);
  const [, fill, align, sign = '', , prefixed, zero, width, separator = '', precision, type = ''] = match;
  return {
    fill: fill ?? (zero ? '0' : ' '),
    align: align ?? (zero ? '=' : ''),
    sign,
    prefixed: prefixed !== undefined,
    width: Number(width ?? 0),
    separator,
    precision: precision === undefined ? undefined : Number(precision),
    type,
  };
}

/** format(value, spec). */
function formatValue(runtime: Runtime, value: Value, text: string): string {
  if (text === '') return str(runtime, value);
  const spec = parseSpec(text);
  runtime.make(spec.width);
  if (isText(value)) {
    if (!['', 's'].includes(spec.type) || spec.sign || spec.separator || (spec.align === '=' && text[0] !== '0'))
      throw unknown(spec, value);
    const whole = str(runtime, value);
    const shown = spec.precision === undefined ? whole : sliceText(whole, 0, spec.precision);
    return padded(spec.align === '=' ? { ...spec, align: '<' } : spec, '', shown, '<');
  }
  if (typeof value === 'boolean' && spec.type === '') return formatValue(runtime, numberText(value), text);
  if (!isNumber(value)) throw new JinjaError(`unsupported format string passed to ${typeName(value)}.__format__`);
  const number = typeof value === 'boolean' ? Number(value) : value;
  const whole = isInt(number) && !'eEfFgG%'.includes(spec.type || 'd');
  const [negative, digits] = whole ? formatInt(number as number | bigint, spec) : formatFloat(toFloat(value), value instanceof Float, spec);
  return padded(spec, signOf(negative, spec.sign), digits, '>');
}

const unknown = (spec: Spec, value: Value): JinjaError =>
  new JinjaError(`unknown format code '${spec.type}' for object of type '${typeName(value)}'`);

function formatInt(value: number | bigint, spec: Spec): [boolean, string] {
  if (spec.precision !== undefined || !'bcdnoxX'.includes(spec.type)) throw unknown(spec, value);
  if (spec.type === 'c') return [false, String.fromCodePoint(Number(value))];
  const digits = intDigits(value, spec.type, false);
  const decimal = spec.type === '' || spec.type === 'd';
  const shown = spec.separator ? grouped(digits, spec.separator, decimal ? 3 : 4) : digits;
  return [value < 0, spec.prefixed && 'boxX'.includes(spec.type || 'd') ? `0${spec.type}${shown}` : shown];
}

function formatFloat(value: number, isFloat: boolean, spec: Spec): [boolean, string] {
  if (!'eEfFgGn%'.includes(spec.type)) throw unknown(spec, new Float(value));
  const negative = isNegative(value);
  if (spec.type === '%') return [negative, `${grouping(floatDigits(value * 100, 'f', spec.precision ?? 6), spec)}%`];
  if (spec.type === '' && isFloat) {
    if (spec.precision === undefined) return [negative, grouping(floatText(Math.abs(value)), spec)];
    // Like g, but with at least one digit after the point, and with an exponent one digit earlier.
    const shown = floatDigits(value, 'g', spec.precision);
    const early = /^\d+$/.test(shown) && shown.length >= (spec.precision || 1) && Number.isFinite(value);
    const digits = early ? floatDigits(value, 'e', Math.max(0, (spec.precision || 1) - 1)) : /^\d+$/.test(shown) ? `${shown}.0` : shown;
    return [negative, grouping(early ? digits.replace(/\.?0+e/, 'e') : digits, spec)];
  }
  const type = spec.type === 'n' ? 'g' : spec.type;
  return [negative, grouping(floatDigits(value, type, spec.precision ?? 6, spec.prefixed), spec)];
}

const grouping = (digits: string, { separator }: Spec): string => (separator ? grouped(digits, separator) : digits);

function padded(spec: Spec, sign: string, digits: string, otherwise: string): string {
  const missing = Math.max(0, spec.width - textLength(sign + digits));
  const align = spec.align || otherwise;
  const fillTo = (n: number): string => spec.fill.repeat(n);
  if (align === '<') return sign + digits + fillTo(missing);
  if (align === '>') return fillTo(missing) + sign + digits;
  if (align === '=') return sign + fillTo(missing) + digits;
  return fillTo(Math.floor(missing / 2)) + sign + digits + fillTo(Math.ceil(missing / 2));
}
