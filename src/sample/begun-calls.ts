/** Holds calls to a grammar from the text that opens them to their end. All other text is free. */
import { tailLength } from '../generate/stop.ts';
import type { Grammar } from '../grammar/grammar.ts';
import type { TokenConstraint } from './sampler.ts';

/** The places in which calls may begin. */
export interface CallStarts {
  /** Texts with which a call begins. */
  readonly starts: readonly string[];
  /** True: a call begins only at the start of the text, after blanks. */
  readonly onlyFirst: boolean;
  /** Marks around reasoning, in which no call begins. */
  readonly spans: readonly { readonly start: string; readonly end: string }[];
  /** Index of the span that is open at the end of the prompt. */
  readonly open?: number;
  /** True: reasoning may begin anywhere. False: only at the start, after blanks. */
  readonly anywhere: boolean;
  /** Calls may begin within reasoning, and end it. */
  readonly inSpans: boolean;
  /** The end of the prompt that belongs to the text. */
  readonly begun: string;
  /** The text ends after its first call. */
  readonly single: boolean;
}

/** Parts of the model that the constraint needs. */
interface Context {
  readonly budget: TokenConstraint | undefined;
  /** Bytes of a token, also of control tokens. */
  readonly pieceBytes: (id: number) => Uint8Array;
  readonly isEog: (id: number) => boolean;
}

/** Parts of a constraint that a generation asks, besides the sampler. */
export type ConstraintReader = Pick<Grammar, 'prepare' | 'isFinished' | 'relaxed'>;

/** Position in text outside of calls. */
interface Free {
  /** Undefined: not in reasoning. */
  readonly spanEnd: string | undefined;
  /** Only blanks came so far, or the beginning of a mark after them. */
  readonly atStart: boolean;
  /** The last characters, as far back as a mark may begin in them. */
  readonly tail: string;
}

/** Bytes as a string with one character for each, because tokens may end within a character. */
const byBytes = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));
const encoder = new TextEncoder();
const encoded = (text: string): string => byBytes(encoder.encode(text));

/** @param grammar of one section of calls, from its start on */
export function createBegunCalls(
  grammar: Grammar,
  given: CallStarts,
  { budget, pieceBytes, isEog }: Context,
): TokenConstraint & ConstraintReader {
  const finder = new CallFinder(given);
  let free: Free = finder.start;
  let call: Grammar | undefined;
  let ended = false;

  /** Reads a call from its start on; undefined if it does not begin so. */
  const opened = (text: string): Grammar | undefined => {
    const reader = grammar.clone();
    return reader.read(bytesOf(text)) ? reader : undefined;
  };
  const fitsFree = (id: number): boolean => {
    if (isEog(id)) return true;
    const next = finder.after(free, byBytes(pieceBytes(id)));
    return typeof next !== 'string' || opened(next) !== undefined;
  };
  const allows = (id: number): boolean => {
    if (!call) return fitsFree(id) && (budget?.allows(id) ?? true);
    return call.allows(id) || (call.isComplete() && !given.single && fitsFree(id));
  };
  const leave = (): void => {
    call = undefined;
    ended = given.single;
    free = finder.outside;
  };
  /** Reads text outside of calls. Text that is not a call stays free. */
  const readFree = (text: string): void => {
    const next = finder.after(free, text);
    if (typeof next !== 'string') free = next;
    else {
      call = opened(next);
      free = finder.outside;
    }
  };
  const reset = (): void => {
    leave();
    ended = false;
    free = finder.start;
    budget?.reset();
    if (given.begun !== '') readFree(encoded(given.begun));
  };

  reset();
  return {
    allows,
    mask(logits) {
      if (call && !call.isComplete()) return call.mask(logits);
      if (!call) budget?.mask(logits);
      for (let id = 0; id < logits.length; id++) if (logits[id] !== -Infinity && !allows(id)) logits[id] = -Infinity;
    },
    accept(id) {
      if (call?.allows(id)) {
        call.accept(id);
        if (call.isFinished()) leave();
        return;
      }
      if (call) leave();
      budget?.accept(id);
      readFree(byBytes(pieceBytes(id)));
    },
    reset,
    prepare: async () => call?.prepare(),
    isFinished: () => ended,
    relaxed: grammar.relaxed,
  };
}

/** Finds the starts of calls, and the reasoning in which none begins. */
class CallFinder {
  /** Position at the start of the text. */
  readonly start: Free;
  /** Position after a call. */
  readonly outside: Free = { spanEnd: undefined, atStart: false, tail: '' };
  readonly #starts: readonly string[];
  readonly #spans: readonly { readonly start: string; readonly end: string }[];
  readonly #given: CallStarts;

  constructor(given: CallStarts) {
    this.#given = given;
    this.#starts = given.starts.map(encoded);
    this.#spans = given.spans.map(({ start, end }) => ({ start: encoded(start), end: encoded(end) }));
    this.start = {
      spanEnd: given.open === undefined ? undefined : this.#spans[given.open].end,
      atStart: given.open === undefined,
      tail: '',
    };
  }

  /** The position after more text; a string is the text of a call, from its start on. */
  after(from: Free, text: string): Free | string {
    let { spanEnd, atStart } = from;
    let rest = from.tail + text;
    for (;;) {
      const marks = this.#marks(spanEnd, atStart);
      const begun = rest.trimStart();
      // At the start, only what comes after blanks counts as a mark of the start.
      if (atStart && begun !== '' && !marks.some((mark) => mark.startsWith(begun) || begun.startsWith(mark))) {
        atStart = false;
        continue;
      }
      const found = firstOf(rest, marks);
      if (!found) return { spanEnd, atStart, tail: rest.slice(rest.length - (atStart ? begun.length : tailLength(rest, marks))) };
      if (this.#starts.includes(found.mark)) return rest.slice(found.at);
      rest = rest.slice(found.at + found.mark.length);
      spanEnd = found.mark === spanEnd ? undefined : this.#spans.find(({ start }) => start === found.mark)?.end;
      atStart = false;
    }
  }

  #marks(spanEnd: string | undefined, atStart: boolean): readonly string[] {
    const { anywhere, onlyFirst, inSpans } = this.#given;
    if (spanEnd !== undefined) return inSpans ? [spanEnd, ...this.#starts] : [spanEnd];
    return [...(onlyFirst && !atStart ? [] : this.#starts), ...(anywhere || atStart ? this.#spans.map(({ start }) => start) : [])];
  }
}

/** The first of several marks in a text. At equal positions, the longest. */
function firstOf(text: string, marks: readonly string[]): { readonly at: number; readonly mark: string } | undefined {
  let first: { at: number; mark: string } | undefined;
  for (const mark of marks) {
    const at = text.indexOf(mark);
    if (at < 0) continue;
    if (!first || at < first.at || (at === first.at && mark.length > first.mark.length)) first = { at, mark };
  }
  return first;
}
