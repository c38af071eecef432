/** What people say in a conversation stays text: marks in it that no template sees through, and that are taken out of the prompt again. */
import { QuantletError } from '../errors.ts';
import type { BreaksIn } from '../tokenize/breaks.ts';

/** A conversation as its model's prompt, and the offsets in it that no control token may reach across (EncodeOptions.breaks). */
export interface RenderedPrompt {
  readonly text: string;
  readonly breaks: readonly number[];
}

/** Puts marks into strings while a conversation is written, and takes them out of what was written. */
export interface ContentMarks {
  mark(text: string, keep?: ReadonlySet<string>): string;
  /** All strings of a value, the names of its fields too, but for their beginnings. */
  markAll<T>(value: T): T;
  take(text: string): RenderedPrompt;
}

/** Unicode's noncharacters: they are for a program's own use, and no text that is exchanged needs them. */
const FIRST = 0xfdd0, LAST = 0xfdef;

/** For conversations whose control tokens are to be read. */
export const noMarks: ContentMarks = { mark: (text) => text, markAll: (value) => value, take: (text) => ({ text, breaks: [] }) };

/**
 * A mark is put only where `breaksIn` finds something, so that a template sees nearly every text as it is.
 * @param given everything that may be written: the mark must not occur in it
 */
export function createContentMarks(breaksIn: BreaksIn, given: () => string): ContentMarks {
  let chosen: string | undefined;
  const choose = (): string => {
    const text = given();
    for (let code = FIRST; code <= LAST; code++) {
      const mark = String.fromCharCode(code);
      if (!text.includes(mark) && !text.includes(escaped(mark))) return mark;
    }
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'The conversation holds all of the noncharacters U+FDD0 to U+FDEF; expected text without one of them.');
  };
  const mark = (text: string, keep?: ReadonlySet<string>, least = 0): string => {
    const breaks = breaksIn(text, keep).filter((at) => at >= least);
    if (breaks.length === 0) return text;
    chosen ??= choose();
    let out = '', from = 0;
    for (const at of breaks) {
      out += text.slice(from, at) + chosen;
      from = at;
    }
    return out + text.slice(from);
  };
  // Of such values templates ask what they are: a mark at the beginning of `user` or `function`, which are parts of control tokens, would change the answer.
  const markInside = (text: string): string => mark(text, undefined, 1);
  const markAll = (value: unknown): unknown => {
    if (typeof value === 'string') return markInside(value);
    if (Array.isArray(value)) return value.map(markAll);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [markInside(key), markAll(part)]));
  };
  return {
    mark: (text, keep) => mark(text, keep),
    markAll: markAll as ContentMarks['markAll'],
    take(text) {
      if (chosen === undefined) return { text, breaks: [] };
      const breaks: number[] = [];
      let out = '';
      // Some templates write JSON in ASCII: there the mark is an escape.
      for (const part of text.split(new RegExp(`${chosen}|${escaped(chosen).replace('\\', '\\\\')}`))) {
        out += part;
        breaks.push(out.length);
      }
      return { text: out, breaks: breaks.slice(0, -1) };
    },
  };
}

const escaped = (mark: string): string => `\\u${mark.charCodeAt(0).toString(16)}`;
