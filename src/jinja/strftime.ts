/**
 * C's strftime in the C locale and in local time: the output of Python's datetime.strftime with
 * glibc.
 */

const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const DAY_MS = 86_400_000;

/** A number, its width, and the character that pads it. */
interface Field {
  readonly value: number;
  readonly width: number;
  readonly fill: string;
}

const field = (value: number, width = 2, fill = '0'): Field => ({ value, width, fill });

/** Days since 1 January. */
function dayOfYear(date: Date): number {
  return Math.round((Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MS);
}

/** ISO 8601 week, and the year that the week belongs to. Week 1 has the year's first Thursday. */
function isoWeek(date: Date): { week: number; year: number } {
  const thursday = new Date(date.getFullYear(), date.getMonth(), date.getDate() - ((date.getDay() + 6) % 7) + 3);
  return { week: Math.floor(dayOfYear(thursday) / 7) + 1, year: thursday.getFullYear() };
}

const numbers: Readonly<Record<string, (date: Date) => Field>> = {
  C: (date) => field(Math.floor(date.getFullYear() / 100)),
  d: (date) => field(date.getDate()),
  e: (date) => field(date.getDate(), 2, ' '),
  f: (date) => field(date.getMilliseconds() * 1000, 6),
  g: (date) => field(isoWeek(date).year % 100),
  G: (date) => field(isoWeek(date).year, 1),
  H: (date) => field(date.getHours()),
  I: (date) => field(date.getHours() % 12 || 12),
  j: (date) => field(dayOfYear(date) + 1, 3),
  k: (date) => field(date.getHours(), 2, ' '),
  l: (date) => field(date.getHours() % 12 || 12, 2, ' '),
  m: (date) => field(date.getMonth() + 1),
  M: (date) => field(date.getMinutes()),
  s: (date) => field(Math.floor(date.getTime() / 1000), 1),
  S: (date) => field(date.getSeconds()),
  u: (date) => field(date.getDay() || 7, 1),
  U: (date) => field(Math.floor((dayOfYear(date) + 7 - date.getDay()) / 7)),
  V: (date) => field(isoWeek(date).week),
  w: (date) => field(date.getDay(), 1),
  W: (date) => field(Math.floor((dayOfYear(date) + 7 - ((date.getDay() + 6) % 7)) / 7)),
  y: (date) => field(date.getFullYear() % 100),
  Y: (date) => field(date.getFullYear(), 1),
};

const texts: Readonly<Record<string, (date: Date) => string>> = {
  a: (date) => days[date.getDay()].slice(0, 3),
  A: (date) => days[date.getDay()],
  b: (date) => months[date.getMonth()].slice(0, 3),
  B: (date) => months[date.getMonth()],
  h: (date) => months[date.getMonth()].slice(0, 3),
  n: () => '\n',
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  P: (date) => (date.getHours() < 12 ? 'am' : 'pm'),
  t: () => '\t',
  // Empty, as Python writes them for a datetime without a time zone.
  z: () => '',
  Z: () => '',
  '%': () => '%',
};

const compounds: Readonly<Record<string, string>> = {
  c: '%a %b %e %H:%M:%S %Y',
  D: '%m/%d/%y',
  F: '%Y-%m-%d',
  r: '%I:%M:%S %p',
  R: '%H:%M',
  T: '%H:%M:%S',
  x: '%m/%d/%y',
  X: '%H:%M:%S',
};

/** @param make called with the number of characters that a width asks for; may throw to refuse */
export function strftime(format: string, date: Date, make: (characters: number) => void = () => {}): string {
  return format.replace(/%([-_0^#]*)(\d*)[EO]?([A-Za-z%])/g, (whole, flags: string, width: string, letter: string) => {
    make(Number(width));
    const has = (flag: string): boolean => flags.includes(flag);
    if (Object.hasOwn(numbers, letter)) {
      const { value, width: own, fill } = numbers[letter](date);
      if (has('-')) return String(value);
      const by = has('_') ? ' ' : has('0') || (width !== '' && fill !== ' ') ? '0' : fill;
      return String(value).padStart(width === '' ? own : Number(width), by);
    }
    const text = Object.hasOwn(texts, letter)
      ? texts[letter](date)
      : Object.hasOwn(compounds, letter)
        ? strftime(compounds[letter], date)
        : undefined;
    if (text === undefined) return whole;
    const cased = has('^') ? text.toUpperCase() : has('#') ? (letter === 'p' ? text.toLowerCase() : text.toUpperCase()) : text;
    return cased.padStart(Number(width), has('0') ? '0' : ' ');
  });
}
