/** An answer taken apart as it streams: content, reasoning, tool calls. */
import { tailLength } from '../generate/stop.ts';
import { follows, type CallReader, type ParsedCall } from './calls.ts';
import type { ChatFormat } from './formats.ts';
import type { ChatTool } from './messages.ts';

/** A step of a parsed answer. A call comes whole, when its arguments are complete and valid. */
export type ChatEvent =
  | { readonly type: 'content' | 'reasoning'; readonly delta: string }
  | { readonly type: 'toolCall'; readonly index: number; readonly call: ParsedCall };

/** A whole answer taken apart. */
export interface ParsedAnswer {
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ParsedCall[];
}

export interface ChatParserOptions {
  /** The tools that were offered; without any, calls stay content. */
  readonly tools?: readonly ChatTool[];
  /** The rendered prompt: where it ends inside a `<think>`, the answer begins with reasoning. */
  readonly prompt?: string;
  /** False leaves reasoning and its markers in the content. */
  readonly reasoning?: boolean;
  /** The beginning of the answer, where the prompt has it: it is read first, and no event tells it. */
  readonly begun?: string;
}

/** One answer's parser; see {@link createChatParser}. */
export interface ChatParser {
  push(text: string): ChatEvent[];
  /** The answer is over: decides on what was held back. */
  end(): ChatEvent[];
}

/** The markers within which a prompt ends, so that the answer begins with reasoning. */
export const openReasoning = (pairs: ChatFormat['reasoning'], prompt: string): ChatFormat['reasoning'][number] | undefined =>
  pairs.find(({ start }) => prompt.trimEnd().endsWith(start));

/** Above this length a call is read again only when a closing character arrives, so that long arguments cost no quadratic time. */
const eagerLength = 4096;

/** After so many calls in one answer that were none, all that follows is content: each may have been read to the end of the answer. */
const MAX_FAILED = 100;

/**
 * Takes a model's answer apart while it arrives: content, reasoning, tool calls.
 *
 * Pieces may be cut anywhere; the events in sum depend on the text alone. Held back is only what may still become a
 * marker or a call. What looks like a call and is none (malformed JSON, wrong shape) comes out as content, markers included.
 * Blanks next to markers belong to no part and are left out.
 */
export function createChatParser(format: ChatFormat, options: ChatParserOptions = {}): ChatParser {
  const { begun = '' } = options;
  if (begun === '') return createParser(format, options);
  const known = parseAnswer(format, begun, { ...options, begun: '' });
  // Whole calls are the client's own.
  return known.toolCalls.length > 0 ? createParser(format, options) : goingOn(createParser(format, options), begun, known);
}

/** A parser that has read how the answer begins, without the events of that. */
function goingOn(parser: ChatParser, begun: string, known: ParsedAnswer): ChatParser {
  /** Characters to come that are known. */
  const left = { content: known.content.length, reasoning: known.reasoning.length };
  const isNew = (event: ChatEvent): ChatEvent[] => {
    if (event.type === 'toolCall') return [event];
    const delta = event.delta.slice(left[event.type]);
    left[event.type] = Math.max(0, left[event.type] - event.delta.length);
    return delta === '' ? [] : [{ ...event, delta }];
  };
  parser.push(begun).forEach(isNew);
  const told = (events: ChatEvent[]): ChatEvent[] =>
    events.flatMap((event) => {
      // Text that was held back of the other kinds has become a marker or a call.
      if (event.type !== 'content') left.content = 0;
      if (event.type !== 'reasoning') left.reasoning = 0;
      return isNew(event);
    });
  return { push: (text) => told(parser.push(text)), end: () => told(parser.end()) };
}

function createParser(format: ChatFormat, options: ChatParserOptions): ChatParser {
  const tools = options.tools ?? [];
  const pairs = options.reasoning === false ? [] : format.reasoning;
  const calls = tools.length > 0 ? format.calls : [];
  const bare = tools.length > 0 ? format.bare : undefined;
  const inline = format.reasoningAnywhere ? pairs.map(({ start }) => start) : [];
  // Where reasoning stays in the content, so do its marks.
  const drop = format.drop.filter(
    (word) => options.reasoning !== false || !format.reasoning.some(({ start, end }) => start.startsWith(word) || end === word),
  );
  const starts = calls.map(({ start }) => start);
  let markers = [...starts, ...drop, ...inline];
  /** What ends reasoning or is left out of it, beside its end. */
  let inReasoning = format.callsEndReasoning && calls.length > 0 ? [...starts, ...drop] : [];
  /** Calls that were none. */
  let failed = 0;

  const prompt = options.prompt?.trimEnd() ?? '';
  const open = openReasoning(pairs, prompt);
  let mode: 'content' | 'reasoning' | 'call' = open ? 'reasoning' : 'content';
  let closer = open?.end ?? '';
  /** Only blanks since the start or the last marker. */
  let fresh = true;
  /** A marker came before: blanks at the start of the next part are not part of it. */
  let trims = open !== undefined;
  let mayReason = true;
  let reader: CallReader | undefined;
  /** What is being read as a call is part of this if it is none, its opener included. */
  let around: 'content' | 'reasoning' = 'content';
  let opener = '';
  let index = 0;
  // Functionary's prompt ends in the marker that the answer continues.
  const begun = format.calls.find(({ start }) => start === '>>>' && prompt.endsWith(start))?.start ?? '';
  let held = begun;
  let shownOpener = begun === '';
  let events: ChatEvent[] = [];

  function emit(type: 'content' | 'reasoning', delta: string): void {
    const last = events.at(-1);
    if (delta === '') return;
    if (last?.type === type) events[events.length - 1] = { type, delta: last.delta + delta };
    else events.push({ type, delta });
  }

  function emitPart(type: 'content' | 'reasoning', text: string): void {
    const part = fresh && trims ? text.trimStart() : text;
    if (part === '') return;
    fresh = false;
    if (type === 'content') mayReason = false;
    emit(type, part);
  }

  function enter(next: typeof mode, length: number): void {
    held = held.slice(length);
    mode = next;
    fresh = true;
    trims = true;
  }

  function content(final: boolean): boolean {
    const start = held.length - held.trimStart().length;
    if (fresh && start === held.length && !final) return false;
    if (fresh && mayReason && !format.reasoningAnywhere) {
      for (const { start: word, end } of pairs) {
        const found = follows(held, start, word);
        if (found === 'more' && !final) return false;
        if (found !== true) continue;
        mayReason = false;
        closer = end;
        enter('reasoning', start + word.length);
        return true;
      }
    }
    if (fresh && bare && held[start] === '{') {
      [reader, opener, around] = [bare, held.slice(0, start), 'content'];
      enter('call', start);
      return true;
    }
    const clear = final ? held.length : held.length - tailLength(held, markers);
    const { at, marker } = firstOf(held, markers);
    if (at >= 0 && at < clear) {
      const before = held.slice(0, at);
      // Blanks before a call are not content, unless it turns out to be none.
      const blanks = fresh && before.trim() === '' ? before : '';
      if (blanks === '') emitPart('content', before);
      const syntax = calls.find((candidate) => candidate.start === marker);
      const pair = format.reasoningAnywhere ? pairs.find((candidate) => candidate.start === marker) : undefined;
      if (syntax) [reader, opener, around] = [syntax.read, (trims ? '' : blanks) + (shownOpener ? marker : ''), 'content'];
      if (pair) closer = pair.end;
      shownOpener = true;
      enter(syntax ? 'call' : pair ? 'reasoning' : 'content', at + marker.length);
      return true;
    }
    const part = held.slice(0, clear);
    if (fresh && part.trim() === '' && !final) return false;
    emitPart('content', part);
    held = held.slice(clear);
    return false;
  }

  function reasoning(final: boolean): boolean {
    const ends = [closer, ...inReasoning];
    const first = firstOf(held, ends);
    const clear = final ? held.length : held.length - tailLength(held, ends);
    const ended = first.at >= 0 && first.at < clear;
    // Blanks are held back: at the end of the reasoning they are not part of it.
    const part = held.slice(0, ended ? first.at : clear).trimEnd();
    emitPart('reasoning', part);
    if (!ended) {
      held = final ? '' : held.slice(part.length);
      return false;
    }
    const syntax = first.marker === closer ? undefined : calls.find(({ start }) => start === first.marker);
    if (syntax) [reader, opener, around] = [syntax.read, held.slice(part.length, first.at + first.marker.length), 'reasoning'];
    if (syntax || first.marker === closer) enter(syntax ? 'call' : 'content', first.at + first.marker.length);
    else held = held.slice(first.at + first.marker.length);
    return true;
  }

  function call(final: boolean, added: string): boolean {
    if (!final && held.length > eagerLength && !/[}\])>|]/.test(added)) return false;
    const read = (reader as CallReader)(held, final, tools);
    if (read === 'more') return false;
    if (read === 'bad') {
      mode = around;
      fresh = false;
      if (around === 'content') mayReason = false;
      emit(around, opener);
      if (++failed === MAX_FAILED) {
        markers = [...drop, ...inline];
        inReasoning = [];
      }
      return true;
    }
    for (const one of read.calls) events.push({ type: 'toolCall', index: index++, call: one });
    mayReason = false;
    enter('content', read.end);
    return true;
  }

  function run(added: string, final: boolean): ChatEvent[] {
    events = [];
    while (mode === 'content' ? content(final) : mode === 'reasoning' ? reasoning(final) : call(final, added));
    if (final) held = '';
    return events;
  }

  return {
    push(text) {
      held += text;
      return run(text, false);
    },
    end: () => run('', true),
  };
}

/** The word that comes first in a text, the longest of those that begin there. */
function firstOf(text: string, words: readonly string[]): { at: number; marker: string } {
  let [at, marker] = [-1, ''];
  for (const word of words) {
    const found = text.indexOf(word);
    if (found >= 0 && (at < 0 || found < at || (found === at && word.length > marker.length))) [at, marker] = [found, word];
  }
  return { at, marker };
}

/** The whole answer at once, with the same rules. */
export function parseAnswer(format: ChatFormat, text: string, options?: ChatParserOptions): ParsedAnswer {
  const parser = createChatParser(format, options);
  return collectEvents([...parser.push(text), ...parser.end()]);
}

/** Puts events together again. */
export function collectEvents(events: readonly ChatEvent[]): ParsedAnswer {
  const text = (type: string): string => events.map((event) => (event.type === type && 'delta' in event ? event.delta : '')).join('');
  return {
    content: text('content'),
    reasoning: text('reasoning'),
    toolCalls: events.flatMap((event) => (event.type === 'toolCall' ? [event.call] : [])),
  };
}
