/**
 * JSON that keeps the spelling of numbers. JavaScript would write 1234567890123456789 and 1.0 as
 * 1234567890123456800 and 1.
 */

/** Spellings of numbers, by the list or object that holds them and by their key. */
const spellings = new WeakMap<object, Map<string, string>>();

/** A list or an object that is being read. */
interface Frame {
  /** The value from JSON.parse(); undefined if a later field of the same name replaced it. */
  readonly value: object | undefined;
  readonly list: boolean;
  /** The current field, or the index of the current element. */
  key: string;
  /** In an object: the current field's name has been read. */
  named: boolean;
}

const NUMBER = /-?\d[\d.eE+-]*/y;

/**
 * JSON.parse() that also records the spellings of numbers that JavaScript would write differently.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  const root: unknown = JSON.parse(text);
  const frames: Frame[] = [{ value: { root }, list: false, key: 'root', named: true }];
  for (let at = 0; at < text.length; at++) {
    const frame = frames.at(-1)!;
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      if (frame.named || frame.list) note(frame);
      else frame.key = nameOf(text.slice(at, end));
      at = end - 1;
    } else if (char === '{' || char === '[') {
      note(frame);
      const value = valueOf(frame);
      frames.push({ value: typeof value === 'object' && value !== null ? value : undefined, list: char === '[', key: '0', named: false });
    } else if (char === '}' || char === ']') frames.pop();
    else if (char === ':') frame.named = true;
    else if (char === ',') {
      frame.named = false;
      if (frame.list) frame.key = String(Number(frame.key) + 1);
    } else if (char === '-' || (char >= '0' && char <= '9')) {
      NUMBER.lastIndex = at;
      const [number] = NUMBER.exec(text)!;
      note(frame, number);
      at += number.length - 1;
    }
  }
  return root;
}

function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); ; at = text.indexOf('"', at + 1)) {
    let escapes = at;
    while (text[escapes - 1] === '\\') escapes--;
    if ((at - escapes) % 2 === 0) return at + 1;
  }
}

const nameOf = (quoted: string): string => (quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1));

const valueOf = ({ value, key }: Frame): unknown =>
  value && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;

/**
 * Tells if JavaScript and Python both write a number in this spelling. Below 1e-4 Python's
 * exponents have two digits.
 */
const isPlain = (number: string): boolean => String(Number(number)) === number && (number === '0' || Math.abs(Number(number)) >= 1e-4);

/**
 * Records the spelling of a frame's current value. Deletes an earlier record if it is no longer
 * valid, since a name may occur twice.
 */
function note({ value, key }: Frame, number?: string): void {
  if (!value) return;
  const known = spellings.get(value);
  if (number === undefined || isPlain(number)) known?.delete(key);
  else if (known) known.set(key, number);
  else spellings.set(value, new Map([[key, number]]));
}

/**
 * The recorded spelling of the number under a key, or a bigint's digits; undefined if JavaScript
 * would write the same.
 */
export function spellingOf(holder: object, key: string): string | undefined {
  const value = (holder as Readonly<Record<string, unknown>>)[key];
  if (typeof value === 'bigint') return String(value);
  const text = typeof value === 'number' ? spellings.get(holder)?.get(key) : undefined;
  return text !== undefined && Object.is(Number(text), value) ? text : undefined;
}

/** Copies the recorded spellings of a list or object to its copy. */
export function keepSpellings<T extends object>(copy: T, original: object): T {
  const known = spellings.get(original);
  if (known) spellings.set(copy, new Map(known));
  return copy;
}

/** JSON.stringify() that also writes integers of type bigint. */
export const bigJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));

/** Stand-ins for numbers of one text. */
export interface NumberMarks {
  /**
   * The value with a stand-in for every number whose spelling JavaScript or Python would change.
   */
  mark<T>(value: T): T;
  /** The text with the spellings in place of the stand-ins. */
  take(text: string): string;
}

/** Maximum number of stand-ins in one text. */
const MOST = 1_000_000;

/**
 * Creates stand-ins: numbers that occur nowhere else in the text. Whole numbers get whole
 * stand-ins, others get a fraction, so that a template sees the right kind.
 * @param given all other text that may be written
 */
export function createNumberMarks(given: () => string): NumberMarks {
  const texts: string[] = [];
  let prefix: number | undefined;
  const choose = (): number => {
    const text = given();
    for (let code = 899; code > 100; code--) if (!text.includes(`${code}000000`)) return code;
    return 100;
  };
  const standIn = (text: string): number => {
    prefix ??= choose();
    const at = texts.push(text) - 1;
    return prefix * 1e12 + at + (/^-?\d+$/.test(text) ? 0 : 0.5);
  };
  const mark = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    const one = (key: string, part: unknown): unknown => {
      const text = spellingOf(value, key);
      return text === undefined || texts.length === MOST ? mark(part) : standIn(text);
    };
    if (Array.isArray(value)) return value.map((part, i) => one(String(i), part));
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, one(key, part)]));
  };
  return {
    mark: mark as NumberMarks['mark'],
    take: (text) =>
      prefix === undefined
        ? text
        : text.replace(new RegExp(`${prefix}0{6}(\\d{6})(?:\\.5)?`, 'g'), (whole, at: string) => texts[Number(at)] ?? whole),
  };
}

/** JSON.stringify() that keeps the spellings of numbers. */
export function exactJson(value: unknown, indent?: number): string {
  const numbers = createNumberMarks(() => bigJson(value));
  return numbers.take(JSON.stringify(numbers.mark(value), null, indent));
}

/** JSON text with line breaks for readers; other text unchanged. */
export function indentedJson(text: string): string {
  try {
    return exactJson(parseExactJson(text), 2);
  } catch {
    return text;
  }
}
