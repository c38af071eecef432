/** `'%s' % values`: Python's printf-style formatting. */
import { floatDigits, intDigits, isNegative, signOf } from './number-format.ts';
import { textLength, sliceText } from './characters.ts';
import { toFloat, truncated } from './numbers.ts';
import { ascii, repr, str } from './repr.ts';
import { Dict, Float, isInt, isNumber, isText, JinjaError, plain, Tuple, type Value, type Runtime } from './values.ts';

const conversion = /%(?:\(([^)]*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.?)/gsu;

/** @param values a tuple of values, one value, or a dictionary for `%(name)s` */
export function printf(runtime: Runtime, text: string, values: Value): string {
  const items = values instanceof Tuple ? values.items : [values];
  let next = 0;
  const take = (): Value => {
    if (next >= items.length) throw new JinjaError('not enough arguments for format string');
    return items[next++];
  };
  const count = (field: string | undefined): number | undefined => {
    if (field !== '*') return field === undefined ? undefined : Number(field);
    const value = take();
    if (!isInt(value)) throw new JinjaError('* wants int');
    return Number(value);
  };
  const written = (flags: string, wide: number, type: string, value: Value, places: number | undefined): string => {
    const [sign, body] = convert(runtime, type, value, flags, places);
    runtime.make(Math.abs(wide));
    runtime.read(body.length);
    const missing = Math.max(0, Math.abs(wide) - textLength(sign + body));
    if (flags.includes('-') || wide < 0) return sign + body + ' '.repeat(missing);
    return flags.includes('0') && numeric.has(type) ? sign + '0'.repeat(missing) + body : ' '.repeat(missing) + sign + body;
  };
  const parts: string[] = [];
  let from = 0;
  // matchAll() finds one conversion at a time; replace() would find all before the first is
  // refused.
  for (const { index, 0: whole, 1: key, 2: flags, 3: width, 4: precision, 5: type } of text.matchAll(conversion)) {
    parts.push(text.slice(from, index));
    from = index + whole.length;
    if (type === '%') parts.push('%');
    else {
      const wide = count(width) ?? 0;
      const places = count(precision);
      parts.push(written(flags, wide, type, key === undefined ? take() : named(values, key), places));
    }
  }
  parts.push(text.slice(from));
  const unused = values instanceof Tuple ? next < items.length : next === 0 && !(values instanceof Dict) && !Array.isArray(values);
  if (unused) throw new JinjaError('not all arguments converted during string formatting');
  return parts.join('');
}

const numeric = new Set('diuoxXeEfFgG');

function named(values: Value, key: string): Value {
  if (!(values instanceof Dict)) throw new JinjaError('format requires a mapping');
  const value = values.get(key);
  if (value === undefined) throw new JinjaError(`no value for %(${key})`);
  return value;
}

/**
 * Formats one value.
 * @returns its sign, and the rest
 */
function convert(runtime: Runtime, type: string, value: Value, flags: string, places: number | undefined): [string, string] {
  const flag = flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
  switch (type) {
    case 's':
    case 'r':
    case 'a': {
      const text = type === 's' ? str(runtime, value) : type === 'r' ? repr(runtime, value) : ascii(runtime, value);
      return ['', places === undefined ? text : sliceText(text, 0, places)];
    }
    case 'c':
      return ['', character(value)];
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
      const whole = isInt(value) ? value : value instanceof Float && 'diu'.includes(type) ? truncated(value.value) : undefined;
      if (whole === undefined) throw new JinjaError(`%${type} format: a number is required`);
      const number = typeof whole === 'boolean' ? Number(whole) : whole;
      runtime.make(places ?? 0);
      const digits = intDigits(number, type, false).padStart(places ?? 0, '0');
      const prefix = flags.includes('#') && 'oxX'.includes(type) ? `0${type}` : '';
      return [signOf(number < 0, flag) + prefix, digits];
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      if (!isNumber(value)) throw new JinjaError(`%${type} format: a number is required`);
      const float = toFloat(value);
      return [signOf(isNegative(float), flag), floatDigits(float, type, places ?? 6, flags.includes('#'))];
    }
    default:
      throw new JinjaError(type === '' ? 'incomplete format' : `unsupported format character '${type}'`);
  }
}

function character(value: Value): string {
  if (isText(value) && textLength(plain(value)) === 1) return plain(value);
  const code = isInt(value) ? Number(value) : -1;
  if (!(code >= 0 && code <= 0x10ffff)) throw new JinjaError('%c requires an int or a character');
  return String.fromCodePoint(code);
}
