/**
 * Interface of whatever answers: a server's endpoints or a model in this page. The rest of the page
 * knows only this interface.
 */
import type { Signal } from '@preact/signals';
import type { GenerationOptions } from './settings.ts';

export interface ModelInfo {
  readonly id: string;
  /** Tokens of prompt and answer together; undefined if not known yet. */
  readonly contextLength?: number | undefined;
  /** False: the model has no chat template, so the page lets it continue a text instead. */
  readonly chat: boolean;
  /** True if the model sees pictures; undefined if not known yet. */
  readonly sees?: boolean | undefined;
}

/** A function call, with its arguments as JSON text. */
export interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A part of a message with pictures. */
export type WirePart =
  { readonly type: 'text'; readonly text: string } | { readonly type: 'image_url'; readonly image_url: { readonly url: string } };

/** A message in the spelling of OpenAI's API and of chat templates. */
export interface WireMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string | readonly WirePart[];
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  readonly tool_call_id?: string;
}

/** A request for the answer to a conversation or for the continuation of a text. */
export interface AnswerRequest {
  readonly model: string | undefined;
  readonly task:
    | {
        readonly messages: readonly WireMessage[];
        /** The last message is the beginning of the answer. */ readonly continues: boolean;
      }
    | { readonly prompt: string };
  readonly options: GenerationOptions;
  /** Leave out the oldest turns if the context is too small for all. */
  readonly leaveOut: boolean;
  readonly signal: AbortSignal;
}

export type AnswerPart =
  | { readonly type: 'content' | 'reasoning'; readonly delta: string }
  | { readonly type: 'toolCall'; readonly call: Call }
  /** This number of the oldest messages was left out. */
  | { readonly type: 'leftOut'; readonly messages: number }
  | ReadingPart;

/** Fractions of what the model has to read before it answers. */
export interface ReadingPart {
  readonly type: 'reading';
  /** Pictures that were not read in an earlier turn; undefined once all are. */
  readonly pictures: number | undefined;
  /** The tokens of the conversation that an earlier turn did not compute. */
  readonly tokens: number;
}

/** @param pictures undefined if none is being read */
export const readingPart = (
  { done, total, cached }: { readonly done: number; readonly total: number; readonly cached: number },
  pictures: { readonly done: number; readonly total: number } | undefined,
): ReadingPart => ({
  type: 'reading',
  pictures: pictures && pictures.done < pictures.total ? pictures.done / pictures.total : undefined,
  tokens: total > cached ? (done - cached) / (total - cached) : 1,
});

/** An answer's reason to end, and its counts and times. */
export interface AnswerEnd {
  readonly finishReason: string;
  readonly promptTokens: number;
  /** Prompt tokens that an earlier turn had already computed. */
  readonly cachedTokens: number;
  readonly tokens: number;
  /** Milliseconds for the prompt and for the answer; undefined: the page measures them itself. */
  readonly promptMs?: number;
  readonly predictedMs?: number;
}

export interface Backend {
  readonly models: Signal<readonly ModelInfo[]>;
  /**
   * The reason why no model can be chosen; undefined if there is one, or while models are being
   * asked for.
   */
  readonly problem: Signal<Failure | undefined>;
  answer(request: AnswerRequest): AsyncGenerator<AnswerPart, AnswerEnd>;
  /** Returns the number of tokens of a text. */
  count(text: string, model: string | undefined, signal: AbortSignal): number | Promise<number>;
  /** Advice on how to get a larger context, as the end of a sentence. */
  readonly enlarge: string;
  /** Advice on how to get a model that sees pictures, as a sentence. */
  readonly toSee: string;
}

/** An error to show to people, with its code to look up. */
export interface Failure {
  readonly message: string;
  readonly code?: string | undefined;
}

/** An error whose message is written for people. */
export class PageError extends Error {
  readonly code: string | undefined;
  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

/** The page's names for the library's options, used in error messages. */
const PAGE_NAMES = new Map<string, string>();
export function nameOnPage(names: Readonly<Record<string, string>>): void {
  for (const [option, name] of Object.entries(names)) PAGE_NAMES.set(option, name);
}

/**
 * Replaces option names in a message by the page's names for these settings. An option name that is
 * also an English word is replaced only at the beginning of the message.
 */
function onPage(message: string): string {
  const text = message.replace(/^(loadModel|generate|chat): (?=\w+ is )/, '').replace(/^'(\w+)' /, '$1 ');
  return [...PAGE_NAMES].reduce((text, [option, name]) => {
    const spellings = [option, option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)].join('|');
    const where = /[A-Z]/.test(option) ? `(?<![\\w-])(?:${spellings})\\b` : `^(?:${spellings})(?= (?:is|has|makes|cuts) )`;
    return text.replaceAll(new RegExp(where, 'g'), name);
  }, text);
}

/**
 * Makes a sentence: adds a full stop and a capital letter, unless the text begins with the name of
 * a file, an option or a tensor.
 */
const sentence = (text: string): string =>
  `${text.replace(/^\p{Ll}+(?=[\s,;:.!?]\s|\s|[.!?]?$)/u, (word) => `${word[0].toUpperCase()}${word.slice(1)}`)}${/[.!?]$/.test(text) ? '' : '.'}`;

/**
 * Any error as a sentence with its code. Messages of the engine begin in lower case and have no
 * full stop.
 */
export function failureOf(error: unknown): Failure {
  const { message, code } = (typeof error === 'object' && error !== null ? error : { message: error }) as {
    message?: unknown;
    code?: unknown;
  };
  const text = typeof message === 'string' && message !== '' ? message : String(error);
  return {
    message: sentence(onPage(text)),
    ...(typeof code === 'string' ? { code } : {}),
  };
}

/** True if the request was refused because the context is full. */
export const isContextFull = ({ code }: Failure): boolean => code === 'context_length_exceeded' || code === 'ERR_CONTEXT_FULL';
