/** The messages of a conversation, and their answers. */
import { withImages } from './image-files.ts';
import type { ChatMessage } from '../chat/messages.ts';
import { QuantletError } from '../errors.ts';
import type { Timings } from '../generate/generate.ts';
import type { Model, ModelChatOptions } from '../model.ts';
import { printable } from '../printable.ts';
import { AnswerLog } from './answer-log.ts';
import { flagNames } from './flags.ts';
import type { McpHost } from './mcp/host.ts';
import { CALLS_LEFT, CONTEXT_FULL, endAnswer, readingPrompt, showAnswer, speeds, type AnswerStyle } from './show-answer.ts';

export interface ConversationOptions {
  readonly model: Model;
  readonly system: string | undefined;
  /** A message from the flags, answered before the first one is read. */
  readonly first: string | undefined;
  /** Images of the first message that is answered. */
  readonly images: readonly Uint8Array[];
  readonly chat: ModelChatOptions;
  readonly style: AnswerStyle;
  /** End after one answer. */
  readonly singleTurn: boolean;
  /** If the context is full, leave out the oldest turns; false: report this and stop the answer. */
  readonly shift: boolean;
  /** Print the speed after each answer. */
  readonly timings: boolean;
  /** Printed before the first message is read. */
  readonly greeting: string;
  /** Files that the command reads; /save refuses to overwrite them. */
  readonly inputs: readonly string[];
  /** MCP servers whose tools the model may call. */
  readonly mcp: McpHost | undefined;
}

/** Seed of a repeated answer. The same seed would give the same answer. */
const seedFor = (seed: number | undefined, again: number): { seed?: number } =>
  seed === undefined || seed < 0 ? {} : { seed: (seed + again) % 2 ** 32 };

/** A finished answer. */
interface Answered {
  readonly timings: Timings;
  /** Tokens of the prompt and the answer. */
  readonly tokens: number;
}

/** An answer in progress. */
interface Answering {
  log: AnswerLog;
  /** Turns left out because the context was full. */
  left: number;
  /** Timings so far, after the generation has begun. */
  timings?: () => Timings;
}

/** The messages of a conversation, and the answer that is being written. */
export class Conversation {
  readonly model: Model;
  /** Files that /save refuses to overwrite. */
  readonly inputs: readonly string[];
  readonly mcp: McpHost | undefined;
  messages: ChatMessage[];
  /** The last answer if it finished; undefined if it was stopped or failed. */
  last: Answered | undefined;
  readonly #options: ConversationOptions;
  readonly #terminal: boolean;
  #answering: AbortController | undefined;
  /** Number of repeated answers. Each gets another seed. */
  #regenerated = 0;
  /** Texts that /file has added to the next message. */
  #files = '';
  /** Images of the next message. */
  #images: readonly Uint8Array[];

  /** @param terminal true if a person reads the answers */
  constructor(options: ConversationOptions, terminal: boolean) {
    this.model = options.model;
    this.inputs = options.inputs;
    this.mcp = options.mcp;
    this.#options = options;
    this.#images = options.images;
    this.#terminal = terminal;
    this.messages = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  }

  /** Stops the answer in progress. Returns false if no answer is. */
  stop(reason: unknown): boolean {
    this.#answering?.abort(reason);
    return this.#answering !== undefined;
  }

  systemMessages(): ChatMessage[] {
    return this.messages.filter(({ role }) => role === 'system');
  }

  /** Adds a text in front of the next message. */
  addText(text: string): void {
    this.#files += text;
  }

  /**
   * Adds an image in front of the next message.
   * @throws ERR_INVALID_ARGUMENT without a projector, ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED,
   * ERR_IMAGE_TOO_LARGE
   */
  async addImage(image: Uint8Array): Promise<void> {
    const { readImage } = this.model;
    if (!readImage)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        'the model takes neither images nor sounds: it was loaded without a projector; start with --mmproj FILE',
      );
    await readImage(image);
    this.#images = [...this.#images, image];
  }

  /** Removes the last user message and its answer. */
  takeBack(): ChatMessage | undefined {
    const from = this.messages.findLastIndex(({ role }) => role === 'user');
    const message = this.messages[from];
    if (message) this.messages.length = from;
    return message;
  }

  /** Answers the last message again, with another seed. */
  async answerAgain(nothing: () => void): Promise<void> {
    // With the answer go the calls and results that led to it.
    this.messages.length = this.messages.findLastIndex(({ role }) => role !== 'assistant' && role !== 'tool') + 1;
    if (this.messages.at(-1)?.role === 'user') await this.#answer(++this.#regenerated);
    else nothing();
  }

  complain(error: Error): void {
    const text = error instanceof QuantletError ? `${flagNames(error.message)} (${error.code})` : printable(error.message);
    process.stderr.write(`quantlet: ${text}\n`);
  }

  /**
   * Answers a message, unless it is empty. Returns false if the conversation is over.
   * @param contentOf the content of a message with its text and images
   */
  async answerTo(message: string, contentOf = withImages): Promise<boolean> {
    const text = message.trim();
    if (text === '') return true;
    this.messages.push({ role: 'user', content: contentOf(this.#files + text, this.#images) });
    this.#files = '';
    this.#images = [];
    await this.#answer();
    return !this.#options.singleTurn;
  }

  /**
   * Answers the last message.
   * @param again number of earlier answers to it
   */
  async #answer(again = 0): Promise<void> {
    const stop = (this.#answering = new AbortController());
    const asked = this.messages.at(-1)!;
    const answer: Answering = { log: new AnswerLog(), left: 0 };
    this.last = undefined;
    try {
      this.last = await this.#generate(answer, again, stop.signal);
    } catch (error) {
      if (stop.signal.aborted) endAnswer('stopped');
      else if (error instanceof QuantletError) this.complain(error);
      else throw error;
    } finally {
      this.#answering = undefined;
    }
    this.#report(answer);
    // A stopped answer stays in the conversation; a message whose answer failed is removed.
    const rounds = answer.log.takeRounds();
    const content = answer.log.text.trimStart();
    if (answer.log.text !== '') this.messages.push(...rounds, { role: 'assistant', content });
    else this.messages.length = this.messages.indexOf(asked);
  }

  /**
   * Generates the answer to the last message. If the context is full and the options allow it,
   * leaves out the oldest turns.
   */
  async #generate(answer: Answering, again: number, signal: AbortSignal): Promise<Answered> {
    const { chat, style, shift } = this.#options;
    const reading = readingPrompt(this.model);
    const watch = (timings: () => Timings): void => void (answer.timings = timings);
    try {
      for (;;) {
        const generation = this.model.chat(this.messages, { ...chat, ...seedFor(chat.seed, again), watch, signal });
        try {
          await showAnswer(endReading(generation, reading), style, (event) => answer.log.push(event));
        } catch (error) {
          // Tools that have run do not run again.
          this.messages.push(...answer.log.takeRounds());
          if ((error as QuantletError).code !== 'ERR_CONTEXT_FULL' || !shift || !this.#forgetOldest()) throw error;
          answer.left++;
          continue;
        }
        const { finishReason, timings, promptIds, ids } = await generation.result();
        const tokens = promptIds.length + ids.length;
        const isFull = tokens >= this.model.contextLength;
        const asked = process.stdout.isTTY ? 'cut: -n' : undefined; // A program that reads a pipe knows its own limit.
        endAnswer(finishReason === 'length' ? (isFull ? CONTEXT_FULL : asked) : finishReason === 'tool_calls' ? CALLS_LEFT : undefined);
        return { timings, tokens };
      }
    } finally {
      reading.end();
    }
  }

  /** Removes the oldest message and its answer. Returns false if only the last message is left. */
  #forgetOldest(): boolean {
    const first = this.messages.findIndex(({ role }) => role !== 'system');
    const next = this.messages.findIndex(({ role }, i) => i > first && role === 'user');
    if (next < 0) return false;
    this.messages.splice(first, next - first);
    return true;
  }

  /** Reports turns that were left out, and the speed. A stopped answer has timings too. */
  #report({ log, left, timings }: Answering): void {
    if (left > 0)
      process.stderr.write(`quantlet: the context is full; the oldest ${left === 1 ? 'turn was' : `${left} turns were`} left out\n`);
    const figures = this.last?.timings ?? (log.text === '' ? undefined : timings?.());
    if (this.#options.timings && figures) process.stderr.write(`${speeds(figures)}\n`);
    if (this.#terminal) process.stdout.write('\n');
  }
}

/**
 * Passes events through and ends the progress display at the first one, when the prompt has been
 * computed.
 */
async function* endReading<T>(events: AsyncIterable<T>, reading: { end(): void }): AsyncGenerator<T> {
  for await (const event of events) {
    reading.end();
    yield event;
  }
}

/** First line of a conversation with a model. */
export const greetingOf = (model: Model): string => `${printable(model.name)}, context ${model.contextLength}. /help lists commands.\n`;
