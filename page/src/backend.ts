/** What answers: a server's endpoints or a model in this page. The rest of the page knows this interface alone. */
import type { Signal } from '@preact/signals';
import type { GenerationOptions } from './settings.ts';

/** A model that can be chosen. */
export interface ModelInfo {
  readonly id: string;
  /** Tokens of prompt and answer together; undefined where it is not known yet. */
  readonly contextLength?: number | undefined;
  /** False: the model has no chat template, so a text it continues makes more sense than a conversation. */
  readonly chat: boolean;
}

/** A call of a function, its arguments as JSON text. */
export interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A message as OpenAI's interface and chat templates spell it. */
export interface WireMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  readonly tool_call_id?: string;
}

/** What is asked for: the answer to a conversation, or how a text goes on. */
export interface AnswerRequest {
  readonly model: string | undefined;
  readonly task:
    | {
        readonly messages: readonly WireMessage[];
        /** The last message is the beginning of the answer. */ readonly continues: boolean;
      }
    | { readonly prompt: string };
  readonly options: GenerationOptions;
  /** Leave out the oldest turns where the context has no room for all. */
  readonly leaveOut: boolean;
  readonly signal: AbortSignal;
}

export type AnswerPart =
  | { readonly type: 'content' | 'reasoning'; readonly delta: string }
  | { readonly type: 'toolCall'; readonly call: Call }
  /** So many of the oldest messages were left out. */
  | { readonly type: 'leftOut'; readonly messages: number };

/** How an answer ended and what it took. */
export interface AnswerEnd {
  readonly finishReason: string;
  readonly promptTokens: number;
  /** Of the prompt's tokens those that an earlier turn had computed. */
  readonly cachedTokens: number;
  readonly tokens: number;
  /** Milliseconds of reading the prompt and of writing; undefined: the page measures the time between the parts. */
  readonly promptMs?: number;
  readonly predictedMs?: number;
}

export interface Backend {
  readonly models: Signal<readonly ModelInfo[]>;
  /** Why there is no model to choose; undefined where there is one, or where they are still being asked for. */
  readonly problem: Signal<Failure | undefined>;
  answer(request: AnswerRequest): AsyncGenerator<AnswerPart, AnswerEnd>;
  /** Tokens of a text. */
  count(text: string, model: string | undefined, signal: AbortSignal): number | Promise<number>;
  /** How the context can be made larger, as the end of a sentence. */
  readonly enlarge: string;
}

/** What went wrong, for people, with the code to look it up. */
export interface Failure {
  readonly message: string;
  readonly code?: string | undefined;
}

/** An error whose text is for people. */
export class PageError extends Error {
  readonly code: string | undefined;
  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

/** What the page calls the things that errors name by the library's options. */
const PAGE_NAMES = new Map<string, string>();
export function nameOnPage(names: Readonly<Record<string, string>>): void {
  for (const [option, name] of Object.entries(names)) PAGE_NAMES.set(option, name);
}

/** A message for people: settings by the names that the page gives them. Words that are also plain English are options only where the message begins with them. */
function onPage(message: string): string {
  const text = message.replace(/^(loadModel|generate|chat): (?=\w+ is )/, '').replace(/^'(\w+)' /, '$1 ');
  return [...PAGE_NAMES].reduce((text, [option, name]) => {
    const spellings = [option, option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)].join('|');
    const where = /[A-Z]/.test(option) ? `(?<![\\w-])(?:${spellings})\\b` : `^(?:${spellings})(?= is )`;
    return text.replaceAll(new RegExp(where, 'g'), name);
  }, text);
}

/** A sentence begins with a capital letter, unless with something's name: a file, an option, a tensor. */
const sentence = (text: string): string =>
  `${text.replace(/^\p{Ll}+(?=[\s,;:.!?]\s|\s|[.!?]?$)/u, (word) => `${word[0].toUpperCase()}${word.slice(1)}`)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** An error as a sentence with its code; engine errors begin in lower case and have no full stop. */
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

/** Whether a conversation was refused because its context is full. */
export const isContextFull = ({ code }: Failure): boolean => code === 'context_length_exceeded' || code === 'ERR_CONTEXT_FULL';
