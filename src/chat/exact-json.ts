/** JSON whose numbers keep their spelling: 1234567890123456789 and 1.0, which JavaScript would write as 1234567890123456800 and 1. */

/** Spellings of numbers by the list or object that holds them, and their key in it. */
const spellings = new WeakMap<object, Map<string, string>>();

/** A list or an object that is being read. */
interface Frame {
  /** What JSON.parse() made of it; undefined where a later field of the same name took its place. */
  readonly value: object | undefined;
  readonly list: boolean;
  /** The current field, or the index of the current element. */
  key: string;
  /** In an object: whether the field's name has been read. */
  named: boolean;
}

const NUMBER = /-?\d[\d.eE+-]*/y;

/** JSON.parse(), with the spellings of numbers that JavaScript would write otherwise. @throws SyntaxError */
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

/** Is a number spelled as JavaScript and Python both write it? Below 1e-4 Python has an exponent of two digits. */
const isPlain = (number: string): boolean => String(Number(number)) === number && (number === '0' || Math.abs(Number(number)) >= 1e-4);

/** Remembers the spelling of a frame's current number; of other values that there is none, since a name may come twice. */
function note({ value, key }: Frame, number?: string): void {
  if (!value) return;
  const known = spellings.get(value);
  if (number === undefined || isPlain(number)) known?.delete(key);
  else if (known) known.set(key, number);
  else spellings.set(value, new Map([[key, number]]));
}

/** The number in a list or object under a key, where JavaScript would write it otherwise, and of integers of type bigint; else undefined. */
export function spellingOf(holder: object, key: string): string | undefined {
  const value = (holder as Readonly<Record<string, unknown>>)[key];
  if (typeof value === 'bigint') return String(value);
  const text = typeof value === 'number' ? spellings.get(holder)?.get(key) : undefined;
  return text !== undefined && Object.is(Number(text), value) ? text : undefined;
}

/** Gives a copy of a list or object the spellings of the original: of numbers that it has under the same key. */
export function keepSpellings<T extends object>(copy: T, original: object): T {
  const known = spellings.get(original);
  if (known) spellings.set(copy, new Map(known));
  return copy;
}

/** JSON.stringify() of what may have integers of type bigint: their digits are written. */
export const bigJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));

/** Stand-ins for numbers of one text. */
export interface NumberMarks {
  /** The value with a stand-in for every number that was spelled otherwise than JavaScript and Python write it. */
  mark<T>(value: T): T;
  /** The text with the spellings in place of the stand-ins. */
  take(text: string): string;
}

/** Stand-ins for one text at most. */
const MOST = 1_000_000;

/**
 * Stand-ins are numbers that nothing else in the text has: whole ones for whole numbers, others with a fraction, so that a template sees the
 * right kind.
 * @param given everything else that may be written
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

/** JSON.stringify() with numbers as they were spelled. */
export function exactJson(value: unknown, indent?: number): string {
  const numbers = createNumberMarks(() => bigJson(value));
  return numbers.take(JSON.stringify(numbers.mark(value), null, indent));
}

/** JSON text with line breaks for readers; other text as it is. */
export function indentedJson(text: string): string {
  try {
    return exactJson(parseExactJson(text), 2);
  } catch {
    return text;
  }
}
