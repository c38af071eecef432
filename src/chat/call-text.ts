/** The text of a call as it arrives, and readers that pause until there is more of it. */
import type { ChatTool } from './messages.ts';

/** A call as a model wrote it; `arguments` is the JSON text of an object. */
export interface ParsedCall {
  readonly id: string | undefined;
  readonly name: string;
  readonly arguments: string;
  /** The answer ended within this call: `arguments` is the beginning of the JSON text. */
  readonly cut?: true;
}

/**
 * A piece of a parsed answer. A call of an offered tool comes in pieces while the model writes it
 * (toolCallDelta), and once more as a whole (toolCall). Its arguments are the joined pieces.
 */
export type ChatEvent =
  | { readonly type: 'content' | 'reasoning'; readonly delta: string }
  | CallDelta
  | { readonly type: 'toolCall'; readonly index: number; readonly call: ParsedCall };

/** Piece of the JSON text of a call's arguments. */
export interface CallDelta {
  readonly type: 'toolCallDelta';
  readonly index: number;
  /** The model's id of the call; undefined if it gives none, or gives it after the arguments. */
  readonly id: string | undefined;
  readonly name: string;
  readonly delta: string;
}

/** Reading that pauses (yields) while it needs more text. */
export type Reading<T> = Generator<void, T, void>;

/** Takes what a reader finds: calls, and their arguments piece by piece. */
export interface CallSink {
  /** The offered tool of this name. */
  tool(name: string): ChatTool | undefined;
  /** Tells if a name of a tool begins with this text. */
  offers(begun: string): boolean;
  /** Begins a call. */
  open(name: string, id?: string): void;
  /** Sets the id of the open call, if it became known after its name. */
  identify(id: string): void;
  /** Adds JSON text to the open call's arguments. */
  write(json: string): void;
  /** Ends the open call. The text up to here is used, whatever follows. */
  close(): void;
}

/**
 * Reads calls after their start marker. False: what follows the last closed call is not a call.
 *
 * The outcome depends on the text alone, not on the pieces in which it arrives. So a reader that
 * needs to look ahead waits for the text, or for the end of the answer.
 */
export type CallReader = (text: CallText, sink: CallSink) => Reading<boolean>;

/** Consumed text that stays in memory as one string. More is put aside, see {@link CallText}. */
const MOST_CONSUMED = 1024;

/**
 * Text of calls with a position. Offsets given to its methods count from the position, because
 * consumed text is cut off: a long string that grows piece by piece would be copied for each.
 */
export class CallText {
  /** True if no more text will come. */
  final = false;
  /** True if a reader needed text after the end of the answer. */
  ended = false;
  #text = '';
  #at = 0;
  /** Consumed text since the last keep(). */
  #consumed = '';

  add(text: string): void {
    if (this.#at > MOST_CONSUMED) {
      this.#consumed += this.#text.slice(0, this.#at);
      this.#text = this.#text.slice(this.#at);
      this.#at = 0;
    }
    this.#text += text;
  }

  /** The text from the position on. */
  rest(): string {
    return this.#text.slice(this.#at);
  }

  /** Number of characters that have arrived after the position. */
  get length(): number {
    return this.#text.length - this.#at;
  }

  skip(length: number): void {
    this.#at += length;
  }

  /** Uses the text up to the position: back() does not return to it. */
  keep(): void {
    this.#text = this.rest();
    this.#at = 0;
    this.#consumed = '';
  }

  /** Returns to the last keep(), or to the beginning. */
  back(): void {
    this.#text = this.#consumed + this.#text;
    this.#at = 0;
    this.#consumed = '';
  }

  /** Waits for more text. False at the end of the text. */
  *more(): Reading<boolean> {
    if (!this.final) {
      yield;
      return true;
    }
    this.ended = true;
    return false;
  }

  /** The character at an offset; '' after the end. */
  *charAt(offset = 0): Reading<string> {
    while (this.length <= offset) if (!(yield* this.more())) return '';
    return this.#text[this.#at + offset];
  }

  /** Tells if `word` is at an offset. */
  *has(word: string, offset = 0): Reading<boolean> {
    for (;;) {
      const there = this.#text.slice(this.#at + offset, this.#at + offset + word.length);
      if (there.length === word.length || !word.startsWith(there)) return there === word;
      if (!(yield* this.more())) return false;
    }
  }

  /** Consumes `word` if it is next. */
  *eat(word: string): Reading<boolean> {
    const found = yield* this.has(word);
    if (found) this.skip(word.length);
    return found;
  }

  /**
   * Consumes blanks and `word`, if it comes after them. The end of the answer may cut the word: its
   * beginning is no content either.
   */
  *close(word: string): Reading<boolean> {
    const at = yield* this.afterBlanks();
    const found = yield* this.has(word, at);
    const there = this.#text.slice(this.#at + at);
    if (found) this.skip(at + word.length);
    else if (this.final && there !== '' && word.startsWith(there)) this.skip(at + there.length);
    else return false;
    return true;
  }

  /** Offset of the first character that is not a blank, from an offset on. */
  *afterBlanks(offset = 0): Reading<number> {
    for (let at = offset; ; at++) {
      const char = yield* this.charAt(at);
      if (char === '' || char.trim() !== '') return at;
    }
  }

  /** Consumes blanks, and returns the character after them. */
  *blanks(): Reading<string> {
    this.skip(yield* this.afterBlanks());
    return yield* this.charAt();
  }

  /** The text from an offset up to `word`, if that has at most `most` characters. */
  *before(word: string, most: number, offset = 0): Reading<string | undefined> {
    for (;;) {
      const text = this.#text.slice(this.#at + offset, this.#at + offset + most + word.length);
      const found = text.indexOf(word);
      if (found >= 0) return text.slice(0, found);
      if (text.length === most + word.length || !(yield* this.more())) return undefined;
    }
  }

  /** Consumes the text up to `word`, and the word. */
  *until(word: string, most = MAX_HEAD): Reading<string | undefined> {
    const text = yield* this.before(word, most);
    if (text !== undefined) this.skip(text.length + word.length);
    return text;
  }

  /** Consumes the characters of a set from the position on, at most `most`. */
  *run(set: RegExp, most = MAX_HEAD): Reading<string> {
    let length = 0;
    for (let char = yield* this.charAt(); length < most && char !== '' && set.test(char); char = yield* this.charAt(length)) length++;
    const text = this.#text.slice(this.#at, this.#at + length);
    this.skip(length);
    return text;
  }
}

/** Maximum length of a call's name, id and markers. Longer text without a separator is not a call. */
export const MAX_HEAD = 512;
