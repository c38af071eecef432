/** Streaming parser of an answer: content, reasoning, tool calls. */
import { tailLength } from '../generate/stop.ts';
import { follows, type CallReader, type ParsedCall } from './calls.ts';
import type { ChatFormat } from './formats.ts';
import { firstOf, markersOf, openReasoning, type Markers } from './markers.ts';
import type { ChatTool } from './messages.ts';

/**
 * A piece of a parsed answer. A call is one piece, emitted once its arguments are complete and
 * valid.
 */
export type ChatEvent =
  | { readonly type: 'content' | 'reasoning'; readonly delta: string }
  | { readonly type: 'toolCall'; readonly index: number; readonly call: ParsedCall };

/** A complete parsed answer. */
export interface ParsedAnswer {
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ParsedCall[];
}

export interface ChatParserOptions {
  /** The offered tools; if empty, calls stay content. */
  readonly tools?: readonly ChatTool[];
  /** The rendered prompt. If it ends inside a `<think>`, the answer begins with reasoning. */
  readonly prompt?: string;
  /** False leaves reasoning and its markers in the content. */
  readonly reasoning?: boolean;
  /**
   * The beginning of the answer, if the prompt contains it. The parser reads it first, without
   * events.
   */
  readonly begun?: string;
}

/** One answer's parser; see {@link createChatParser}. */
export interface ChatParser {
  push(text: string): ChatEvent[];
  /** Ends the answer: held text becomes events. */
  end(): ChatEvent[];
}

/**
 * A longer call is parsed again only when a closing character arrives, so that long arguments do
 * not take quadratic time.
 */
const EAGER_LENGTH = 4096;

/**
 * Failed calls allowed per answer. After these everything is content, because each failure may
 * rescan to the end.
 */
const MAX_FAILED = 100;

/**
 * Creates a parser that splits a model's answer into content, reasoning and tool calls as it
 * arrives.
 *
 * Pieces may be cut anywhere; the events in sum depend on the text alone. The parser holds only
 * text that may still become a marker or a call. Text that begins like a call but is not one
 * (malformed JSON, wrong shape) becomes content, with its markers. Blanks next to markers are
 * removed.
 */
export function createChatParser(format: ChatFormat, options: ChatParserOptions = {}): ChatParser {
  const { begun = '' } = options;
  if (begun === '') return new AnswerParser(format, options);
  const known = parseAnswer(format, begun, { ...options, begun: '' });
  // The given beginning contains complete calls, which belong to the client: parse the continuation
  // only.
  return known.toolCalls.length > 0 ? new AnswerParser(format, options) : new ContinuedParser(format, options, begun, known);
}

/** Parser of an answer that continues a known text. Events of the known text are left out. */
class ContinuedParser implements ChatParser {
  readonly #parser: AnswerParser;
  /** Known characters that have not been skipped yet. */
  readonly #known: Record<'content' | 'reasoning', number>;

  constructor(format: ChatFormat, options: ChatParserOptions, begun: string, known: ParsedAnswer) {
    this.#parser = new AnswerParser(format, options);
    this.#known = { content: known.content.length, reasoning: known.reasoning.length };
    for (const event of this.#parser.push(begun)) this.#withoutKnown(event);
  }

  push(text: string): ChatEvent[] {
    return this.#continue(this.#parser.push(text));
  }

  end(): ChatEvent[] {
    return this.#continue(this.#parser.end());
  }

  #continue(events: readonly ChatEvent[]): ChatEvent[] {
    return events.flatMap((event) => {
      // Held text that was known as another part has become a marker or a call.
      if (event.type !== 'content') this.#known.content = 0;
      if (event.type !== 'reasoning') this.#known.reasoning = 0;
      return this.#withoutKnown(event);
    });
  }

  #withoutKnown(event: ChatEvent): ChatEvent[] {
    if (event.type === 'toolCall') return [event];
    const delta = event.delta.slice(this.#known[event.type]);
    this.#known[event.type] = Math.max(0, this.#known[event.type] - event.delta.length);
    return delta === '' ? [] : [{ ...event, delta }];
  }
}

type TextState = { readonly part: 'content' } | { readonly part: 'reasoning'; readonly end: string };
/** States of the parser: the part that the held text belongs to. */
type State =
  | TextState
  /**
   * A possible call. If the text is not a call, it returns to the part around it, after `opener`.
   */
  | { readonly part: 'call'; readonly read: CallReader; readonly opener: string; readonly around: TextState };
const CONTENT: TextState = { part: 'content' };

/**
 * State machine for one answer. Each of the methods #content, #reasoning and #call consumes text
 * from the front of `#held` and returns true if there may be more to consume without further input.
 */
class AnswerParser implements ChatParser {
  readonly #tools: readonly ChatTool[];
  readonly #reasoningAnywhere: boolean;
  /** Markers to use after too many failed calls. */
  readonly #markersWithoutCalls: Markers;
  #markers: Markers;
  #state: State;
  /** Text that has arrived but is not part of an event yet. */
  #held: string;
  #events: ChatEvent[] = [];
  /** True if only blanks came since the start or the last marker. */
  #fresh = true;
  /** A marker came before, so blanks at the start of the next part are removed. */
  #trims: boolean;
  /** True if reasoning may still begin, because only blanks came before. */
  #mayReason = true;
  /** The prompt contains the opening marker, so a failed call does not return it to the content. */
  #openerInPrompt: boolean;
  #calls = 0;
  #failedCalls = 0;

  constructor(format: ChatFormat, options: ChatParserOptions) {
    this.#tools = options.tools ?? [];
    this.#reasoningAnywhere = format.reasoningAnywhere;
    const { reasoning } = options;
    const withTools = this.#tools.length > 0;
    this.#markers = markersOf(format, { reasoning, calls: withTools ? format.calls : [], bare: withTools });
    this.#markersWithoutCalls = markersOf(format, { reasoning, calls: [], bare: withTools });
    const prompt = options.prompt?.trimEnd() ?? '';
    const open = openReasoning(this.#markers.reasoning, prompt);
    this.#state = open ? { part: 'reasoning', end: open.end } : CONTENT;
    this.#trims = open !== undefined;
    // Functionary's prompt ends in the marker that the answer continues.
    this.#held = format.calls.find(({ start }) => start === '>>>' && prompt.endsWith(start))?.start ?? '';
    this.#openerInPrompt = this.#held !== '';
  }

  push(text: string): ChatEvent[] {
    this.#held += text;
    return this.#run(text, false);
  }

  end(): ChatEvent[] {
    const events = this.#run('', true);
    this.#held = '';
    return events;
  }

  #run(added: string, final: boolean): ChatEvent[] {
    this.#events = [];
    while (this.#step(added, final));
    return this.#events;
  }

  #step(added: string, final: boolean): boolean {
    const state = this.#state;
    if (state.part === 'content') return this.#content(final);
    return state.part === 'reasoning' ? this.#reasoning(state, final) : this.#call(state, added, final);
  }

  /** Goes to a state after consuming a marker that ends at `length`. */
  #enter(next: State, length: number): true {
    this.#held = this.#held.slice(length);
    this.#state = next;
    this.#fresh = true;
    this.#trims = true;
    return true;
  }

  #content(final: boolean): boolean {
    const held = this.#held;
    if (this.#fresh) {
      const opened = this.#partAtStart(final);
      if (opened !== undefined) return opened;
    }
    const { inContent } = this.#markers;
    const clear = final ? held.length : held.length - tailLength(held, inContent);
    const { at, marker } = firstOf(held, inContent);
    if (at >= 0 && at < clear) return this.#markerInContent(at, marker);
    const text = held.slice(0, clear);
    if (this.#fresh && text.trim() === '' && !final) return false;
    this.#emitPart('content', text);
    this.#held = held.slice(clear);
    return false;
  }

  /**
   * Enters the reasoning or the bare call that content starts with. False: more text is needed;
   * undefined: neither.
   */
  #partAtStart(final: boolean): boolean | undefined {
    const held = this.#held;
    const start = held.length - held.trimStart().length;
    if (start === held.length && !final) return false;
    const { reasoning, bare } = this.#markers;
    if (this.#mayReason && !this.#reasoningAnywhere) {
      for (const { start: word, end } of reasoning) {
        const found = follows(held, start, word);
        if (found === 'more' && !final) return false;
        if (found !== true) continue;
        this.#mayReason = false;
        return this.#enter({ part: 'reasoning', end }, start + word.length);
      }
    }
    if (bare === undefined || held[start] !== '{') return undefined;
    return this.#enter({ part: 'call', read: bare, opener: held.slice(0, start), around: CONTENT }, start);
  }

  /** Ends the content before a marker, and enters the part that the marker begins. */
  #markerInContent(at: number, marker: string): boolean {
    const before = this.#held.slice(0, at);
    // Blanks before a call are content only if it turns out not to be a call.
    const blanks = this.#fresh && before.trim() === '' ? before : '';
    if (blanks === '') this.#emitPart('content', before);
    const opener = (this.#trims ? '' : blanks) + (this.#openerInPrompt ? '' : marker);
    this.#openerInPrompt = false;
    return this.#enter(this.#stateAfter(marker, opener), at + marker.length);
  }

  #stateAfter(marker: string, opener: string): State {
    const call = this.#markers.calls.find(({ start }) => start === marker);
    if (call) return { part: 'call', read: call.read, opener, around: CONTENT };
    const pair = this.#reasoningAnywhere ? this.#markers.reasoning.find(({ start }) => start === marker) : undefined;
    return pair ? { part: 'reasoning', end: pair.end } : CONTENT;
  }

  #reasoning(state: Extract<State, { part: 'reasoning' }>, final: boolean): boolean {
    const held = this.#held;
    const ends = [state.end, ...this.#markers.inReasoning];
    const { at, marker } = firstOf(held, ends);
    const clear = final ? held.length : held.length - tailLength(held, ends);
    const ended = at >= 0 && at < clear;
    // Blanks are held back: at the end of the reasoning they are not part of it.
    const text = held.slice(0, ended ? at : clear).trimEnd();
    this.#emitPart('reasoning', text);
    if (!ended) {
      this.#held = final ? '' : held.slice(text.length);
      return false;
    }
    const after = at + marker.length;
    if (marker === state.end) return this.#enter(CONTENT, after);
    const call = this.#markers.calls.find(({ start }) => start === marker);
    if (call) return this.#enter({ part: 'call', read: call.read, opener: held.slice(text.length, after), around: state }, after);
    this.#held = held.slice(after);
    return true;
  }

  #call({ read, opener, around }: Extract<State, { part: 'call' }>, added: string, final: boolean): boolean {
    if (!final && this.#held.length > EAGER_LENGTH && !/[}\])>|]/.test(added)) return false;
    const found = read(this.#held, final, this.#tools);
    if (found === 'more') return false;
    if (found === 'bad') {
      this.#failCall(opener, around);
      return true;
    }
    for (const call of found.calls) this.#events.push({ type: 'toolCall', index: this.#calls++, call });
    this.#mayReason = false;
    return this.#enter(CONTENT, found.end);
  }

  /** Returns the held text, with its opening marker, to the part around it. */
  #failCall(opener: string, around: TextState): void {
    this.#state = around;
    this.#fresh = false;
    if (around.part === 'content') this.#mayReason = false;
    this.#emit(around.part, opener);
    if (++this.#failedCalls === MAX_FAILED) this.#markers = this.#markersWithoutCalls;
  }

  #emitPart(type: 'content' | 'reasoning', text: string): void {
    const part = this.#fresh && this.#trims ? text.trimStart() : text;
    if (part === '') return;
    this.#fresh = false;
    if (type === 'content') this.#mayReason = false;
    this.#emit(type, part);
  }

  /** Adds text to the events. Consecutive text of one part is one event. */
  #emit(type: 'content' | 'reasoning', delta: string): void {
    const last = this.#events.at(-1);
    if (delta === '') return;
    if (last?.type === type) this.#events[this.#events.length - 1] = { type, delta: last.delta + delta };
    else this.#events.push({ type, delta });
  }
}

/** Parses a complete answer by the same rules. */
export function parseAnswer(format: ChatFormat, text: string, options?: ChatParserOptions): ParsedAnswer {
  const parser = createChatParser(format, options);
  return collectEvents([...parser.push(text), ...parser.end()]);
}

/** Joins events to an answer. */
export function collectEvents(events: readonly ChatEvent[]): ParsedAnswer {
  const text = (type: string): string => events.map((event) => (event.type === type && 'delta' in event ? event.delta : '')).join('');
  return {
    content: text('content'),
    reasoning: text('reasoning'),
    toolCalls: events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : [])),
  };
}
