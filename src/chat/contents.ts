/**
 * Protection of message text from being read as control tokens. Marks are put into the text before
 * the template sees it, and removed from the rendered prompt.
 */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';

/**
 * A conversation as its model's prompt, and the offsets that no control token may cross
 * (EncodeOptions.breaks).
 */
export interface RenderedPrompt {
  readonly text: string;
  readonly breaks: readonly number[];
}

/**
 * Puts marks into strings before rendering, and removes them from the output. Both may pause,
 * because texts may be long and numerous.
 */
export interface ContentMarks {
  mark(text: string, keep?: ReadonlySet<string>): Work<string>;
  /** Marks all strings of a value, including names of fields, except at their beginnings. */
  markAll<T>(value: T): Work<T>;
  take(text: string): Work<RenderedPrompt>;
}

/** Unicode's noncharacters: reserved for internal use, so that no exchanged text needs them. */
const FIRST = 0xfdd0;
const LAST = 0xfdef;

/** For conversations whose control tokens are to be read as such. */
export const noMarks: ContentMarks = {
  mark: same,
  markAll: same,
  *take(text) {
    return { text, breaks: [] };
  },
};

function* same<T>(value: T): Work<T> {
  return value;
}

/** Elements or marks between two possible pauses. */
const STRIDE = 1024;

/**
 * Finds a noncharacter that a conversation does not contain, literally or escaped: the last such
 * character, or the first if `from` is given.
 * @throws ERR_INVALID_ARGUMENT if it contains all of them
 */
export function unusedMark(given: string, from?: number): string {
  // Scans once: a search for each character would read a long conversation up to 64 times.
  const taken = new Set(
    Array.from(given.matchAll(/[\ufdd0-\ufdef]|\\u(fd[de][0-9a-f])/g), ([found, code]) =>
      code === undefined ? found.charCodeAt(0) : parseInt(code, 16),
    ),
  );
  const free = Array.from({ length: LAST - FIRST + 1 }, (_, i) => FIRST + i).filter((code) => !taken.has(code));
  const code = from === undefined ? free.at(-1) : free[0];
  if (code !== undefined && (from !== undefined || free.length > 1)) return String.fromCharCode(code);
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    'the conversation has all of the noncharacters U+FDD0 to U+FDEF; expected text without at least one of them',
  );
}

/**
 * Creates marks for one conversation. A mark is put only at offsets that `breaksIn` reports, so a
 * template sees nearly every text unchanged.
 * @param given all text that may be written; the mark must not occur in it
 */
export function createContentMarks(breaksIn: BreaksIn, given: () => string): ContentMarks {
  let chosen: string | undefined;
  const choose = (): string => unusedMark(given(), FIRST);
  function* mark(text: string, keep?: ReadonlySet<string>, least = 0): Work<string> {
    const breaks = (yield* breaksIn(text, keep)).filter((at) => at >= least);
    if (breaks.length === 0) return text;
    chosen ??= choose();
    const parts: string[] = [];
    let from = 0;
    for (const at of breaks) {
      if (parts.push(text.slice(from, at)) % STRIDE === 0) yield;
      from = at;
    }
    parts.push(text.slice(from));
    return parts.join(chosen);
  }
  // Templates compare these values with constants such as `user` or `function`, which are parts of
  // control tokens. A mark at the beginning would make the comparison fail.
  const markInside = (text: string): Work<string> => mark(text, undefined, 1);
  let n = 0;
  function* markAll(value: unknown): Work<unknown> {
    if (++n % STRIDE === 0) yield;
    if (typeof value === 'string') return yield* markInside(value);
    if (Array.isArray(value)) {
      const list: unknown[] = [];
      for (const item of value) list.push(yield* markAll(item));
      return list;
    }
    if (typeof value !== 'object' || value === null) return value;
    const fields: [string, unknown][] = [];
    for (const [key, part] of Object.entries(value)) fields.push([yield* markInside(key), yield* markAll(part)]);
    return Object.fromEntries(fields);
  }
  return {
    mark: (text, keep) => mark(text, keep),
    markAll: markAll as ContentMarks['markAll'],
    *take(text) {
      if (chosen === undefined) return { text, breaks: [] };
      const breaks: number[] = [];
      const parts: string[] = [];
      let from = 0;
      let length = 0;
      // Some templates write JSON in ASCII, which turns the mark into an escape.
      for (const { index, 0: found } of text.matchAll(new RegExp(`${chosen}|\\\\u${chosen.charCodeAt(0).toString(16)}`, 'g'))) {
        length += parts[parts.push(text.slice(from, index)) - 1].length;
        breaks.push(length);
        from = index + found.length;
        if (breaks.length % STRIDE === 0) yield;
      }
      parts.push(text.slice(from));
      return { text: parts.join(''), breaks };
    },
  };
}
