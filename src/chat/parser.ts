/** Streaming parser of an answer: content, reasoning, tool calls. */
import { tailLength } from '../generate/stop.ts';
import type { CallReader, ChatEvent, ParsedCall } from './call-text.ts';
import { OpenCalls } from './open-calls.ts';
import type { ChatFormat } from './formats.ts';
import { firstOf, markersOf, openReasoning, type Markers } from './markers.ts';
import type { ChatTool } from './messages.ts';

export type { CallDelta, ChatEvent } from './call-text.ts';

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
  /** Ends the answer: pending text becomes events. */
  end(): ChatEvent[];
}

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
 * (malformed JSON, wrong shape) becomes content, with its markers. If arguments of the call were
 * emitted before, the call ends there (`cut`), and the rest is content. A call that the end of the
 * answer cuts is `cut`, too. Blanks next to markers are removed.
 */
export function createChatParser(format: ChatFormat, options: ChatParserOptions = {}): ChatParser {
  const { begun = '' } = options;
  if (begun === '') return new AnswerParser(format, options);
  const known = parseAnswer(format, begun, { ...options, begun: '' });
  // The given beginning contains complete calls, which belong to the client: parse the continuation
  // only. A call that has only begun is the answer's.
  const complete = known.toolCalls.some(({ cut }) => !cut);
  return complete ? new AnswerParser(format, options) : new ContinuedParser(format, options, begun, known);
}

/**
 * Parser of an answer that continues a known text. The known content and reasoning are left out.
 */
class ContinuedParser implements ChatParser {
  readonly #parser: AnswerParser;
  /** Events of the known text: the arguments of a call that has begun in it. */
  readonly #begun: ChatEvent[];
  /** Known characters that have not been skipped yet. */
  readonly #known: Record<'content' | 'reasoning', number>;

  constructor(format: ChatFormat, options: ChatParserOptions, begun: string, known: ParsedAnswer) {
    this.#parser = new AnswerParser(format, options);
    this.#known = { content: known.content.length, reasoning: known.reasoning.length };
    this.#begun = this.#parser.push(begun).flatMap((event) => this.#withoutKnown(event));
  }

  push(text: string): ChatEvent[] {
    return [...this.#begun.splice(0), ...this.#continue(this.#parser.push(text))];
  }

  end(): ChatEvent[] {
    return [...this.#begun.splice(0), ...this.#continue(this.#parser.end())];
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
    if (event.type !== 'content' && event.type !== 'reasoning') return [event];
    const delta = event.delta.slice(this.#known[event.type]);
    this.#known[event.type] = Math.max(0, this.#known[event.type] - event.delta.length);
    return delta === '' ? [] : [{ ...event, delta }];
  }
}

type TextState = { readonly part: 'content' } | { readonly part: 'reasoning'; readonly end: string };
/** States of the parser: the part that the pending text belongs to. */
type State =
  | TextState
  /**
   * A possible call. If the text is not a call, it returns to the part around it, after `opener`.
   */
  | { readonly part: 'call'; readonly calls: OpenCalls; readonly opener: string; readonly around: TextState };
const CONTENT: TextState = { part: 'content' };

/**
 * State machine for one answer. Each of the methods #content, #reasoning and #call consumes text
 * from the front of `#pending` and returns true if there may be more to consume without further
 * input.
 */
class AnswerParser implements ChatParser {
  readonly #tools: readonly ChatTool[];
  readonly #reasoningAnywhere: boolean;
  /** Markers to use after too many failed calls. */
  readonly #markersWithoutCalls: Markers;
  #markers: Markers;
  #state: State;
  /** Text that has arrived but is not part of an event yet. */
  #pending: string;
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
    this.#pending = format.calls.find(({ start }) => start === '>>>' && prompt.endsWith(start))?.start ?? '';
    this.#openerInPrompt = this.#pending !== '';
  }

  push(text: string): ChatEvent[] {
    this.#pending += text;
    return this.#run(false);
  }

  end(): ChatEvent[] {
    const events = this.#run(true);
    this.#pending = '';
    return events;
  }

  #run(final: boolean): ChatEvent[] {
    this.#events = [];
    while (this.#step(final));
    return this.#events;
  }

  #step(final: boolean): boolean {
    const state = this.#state;
    if (state.part === 'content') return this.#content(final);
    return state.part === 'reasoning' ? this.#reasoning(state, final) : this.#call(state, final);
  }

  /** Goes to a state after consuming a marker that ends at `length`. */
  #enter(next: State, length: number): true {
    this.#pending = this.#pending.slice(length);
    this.#state = next;
    this.#fresh = true;
    this.#trims = true;
    return true;
  }

  #content(final: boolean): boolean {
    const pending = this.#pending;
    if (this.#fresh) {
      const opened = this.#partAtStart(final);
      if (opened !== undefined) return opened;
    }
    const { inContent } = this.#markers;
    const clear = final ? pending.length : pending.length - tailLength(pending, inContent);
    const { at, marker } = firstOf(pending, inContent);
    if (at >= 0 && at < clear) return this.#markerInContent(at, marker);
    const text = pending.slice(0, clear);
    if (this.#fresh && text.trim() === '' && !final) return false;
    this.#emitPart('content', text);
    this.#pending = pending.slice(clear);
    return false;
  }

  /**
   * Enters the reasoning or the bare call that content starts with. False: more text is needed;
   * undefined: neither.
   */
  #partAtStart(final: boolean): boolean | undefined {
    const pending = this.#pending;
    const start = pending.length - pending.trimStart().length;
    if (start === pending.length && !final) return false;
    const { reasoning, bare } = this.#markers;
    if (this.#mayReason && !this.#reasoningAnywhere) {
      const begun = pending.slice(start);
      for (const { start: word, end } of reasoning) {
        if (begun.length < word.length && word.startsWith(begun) && !final) return false;
        if (!begun.startsWith(word)) continue;
        this.#mayReason = false;
        return this.#enter({ part: 'reasoning', end }, start + word.length);
      }
    }
    if (bare === undefined || pending[start] !== '{') return undefined;
    return this.#enter(this.#callState(bare, pending.slice(0, start), CONTENT), start);
  }

  /** Ends the content before a marker, and enters the part that the marker begins. */
  #markerInContent(at: number, marker: string): boolean {
    const before = this.#pending.slice(0, at);
    // Blanks before a call are content only if it turns out not to be a call.
    const blanks = this.#fresh && before.trim() === '' ? before : '';
    if (blanks === '') this.#emitPart('content', before);
    const opener = (this.#trims ? '' : blanks) + (this.#openerInPrompt ? '' : marker);
    this.#openerInPrompt = false;
    return this.#enter(this.#stateAfter(marker, opener), at + marker.length);
  }

  #stateAfter(marker: string, opener: string): State {
    const call = this.#markers.calls.find(({ start }) => start === marker);
    if (call) return this.#callState(call.read, opener, CONTENT);
    const pair = this.#reasoningAnywhere ? this.#markers.reasoning.find(({ start }) => start === marker) : undefined;
    return pair ? { part: 'reasoning', end: pair.end } : CONTENT;
  }

  #reasoning(state: Extract<State, { part: 'reasoning' }>, final: boolean): boolean {
    const pending = this.#pending;
    const ends = [state.end, ...this.#markers.inReasoning];
    const { at, marker } = firstOf(pending, ends);
    const clear = final ? pending.length : pending.length - tailLength(pending, ends);
    const ended = at >= 0 && at < clear;
    // Blanks are held back: at the end of the reasoning they are not part of it.
    const text = pending.slice(0, ended ? at : clear).trimEnd();
    this.#emitPart('reasoning', text);
    if (!ended) {
      this.#pending = final ? '' : pending.slice(text.length);
      return false;
    }
    const after = at + marker.length;
    if (marker === state.end) return this.#enter(CONTENT, after);
    const call = this.#markers.calls.find(({ start }) => start === marker);
    if (call) return this.#enter(this.#callState(call.read, pending.slice(text.length, after), state), after);
    this.#pending = pending.slice(after);
    return true;
  }

  #callState(read: CallReader, opener: string, around: TextState): State {
    const calls = new OpenCalls(read, this.#tools, this.#calls, (event) => this.#addCall(event));
    return { part: 'call', calls, opener, around };
  }

  #call({ calls, opener, around }: Extract<State, { part: 'call' }>, final: boolean): boolean {
    const added = this.#pending;
    this.#pending = '';
    const rest = calls.push(added, final);
    if (rest === undefined) return false;
    this.#pending = rest;
    if (calls.next === this.#calls) {
      this.#failCall(opener, around);
      return true;
    }
    this.#calls = calls.next;
    this.#mayReason = false;
    return this.#enter(CONTENT, 0);
  }

  /** Adds a part of a call to the events. Consecutive pieces of one call are one event. */
  #addCall(event: ChatEvent): void {
    const last = this.#events.at(-1);
    if (event.type === 'toolCallDelta' && last?.type === 'toolCallDelta' && last.index === event.index)
      this.#events[this.#events.length - 1] = { ...last, delta: last.delta + event.delta };
    else this.#events.push(event);
  }

  /** Returns the pending text, with its opening marker, to the part around it. */
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
  const text = (type: 'content' | 'reasoning'): string => events.map((event) => (event.type === type ? event.delta : '')).join('');
  return {
    content: text('content'),
    reasoning: text('reasoning'),
    toolCalls: events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : [])),
  };
}
