/**
 * Code that the endpoints share: the context of a request, usage, and answers at once or as events.
 */
import { newId } from '../chat/messages.ts';
import { draftTimings, predictedPerSecond, type GenerateOptions, type GenerationResult } from '../generate/generate.ts';
import type { Reading } from '../generate/progress.ts';
import type { Work } from '../slices.ts';
import type { Backend } from './backend.ts';
import { COMMENT, eventStream, pingMs, type StreamProtocol } from './http/event-stream.ts';
import { booleanField, type Body } from './protocols/fields.ts';
import { toHttpError, type HttpError } from './http/http-error.ts';
import { jsonPieces } from './http/json-pieces.ts';
import type { Metrics } from './metrics.ts';
import type { Models } from './models.ts';
import type { HandlerOptions, Limits } from './options.ts';
import type { Queue } from './queue.ts';

/** One running request. */
export interface Context {
  readonly options: HandlerOptions;
  readonly limits: Limits;
  readonly request: Request;
  /** The path after the endpoint's own part, and the query. */
  readonly rest: string;
  readonly query: URLSearchParams;
  /** All models, and the chosen one for endpoints that concern one model. */
  readonly models: Models;
  readonly backend: Backend;
  /** Queue of the requests that generate with the chosen model. */
  readonly queue: Queue;
  /** Queues of all loaded models. */
  queues(): readonly Queue[];
  readonly metrics: Metrics;
  /** Queue that allows one request at a time to save or restore a sequence. */
  readonly states: Queue;
  /** Aborted if the client disconnects or the request times out. */
  readonly signal: AbortSignal;
  /**
   * Runs memory-intensive work; of large requests at most two at a time.
   * @throws the signal's reason
   */
  lane<T>(run: () => Promise<T>): Promise<T>;
  /**
   * Runs work in slices, inside lane().
   * @throws the signal's reason
   */
  work<T>(work: Work<T>): Promise<T>;
  /** Maximum messages of a conversation. */
  readonly maxMessages: number;
  /** Reports a failure of the server itself to the server's owner. */
  report(error: unknown): void;
  /** The request's body; empty until it is read. */
  body: Body;
  /** Converts any error to a failure that names fields of this body. */
  readonly failure: (error: unknown) => HttpError;
  /** A failure in the format of the endpoint's protocol, or of the client's. */
  readonly errorBody: (error: HttpError) => object;
  /** Parts of the request that were ignored; the answer's header x-quantlet-left-out names them. */
  readonly leftOut: string[];
  /** Seconds since 1970, for `created`. */
  readonly created: number;
  /** Time of the request's arrival, as of performance.now(). */
  readonly began: number;
  /** Milliseconds in which the request waited for its model to be loaded. */
  readonly loadMs: number;
  /**
   * Counts bytes of this request's body or answer, which are kept until it is finished.
   * @throws HttpError 503 if all requests together keep too many already
   */
  hold(bytes: number): void;
  /**
   * True if the answer continues after its response was returned. Then its sender calls finish() at
   * the end.
   */
  open: boolean;
  abort(reason: unknown): void;
  /**
   * Marks the answer as complete (or failed) with its status for the log. Later calls do nothing.
   */
  finish(status?: number): void;
  /** Releases the model: nothing is computed for the request any more. */
  atRest(): void;
}

/** A random id for an answer or a part, in OpenAI's and Anthropic's style. */
export const answerId = (prefix: 'chatcmpl-' | 'cmpl-' | 'resp_' | 'msg_' | 'rs_' | 'fc_'): string => newId(prefix, 24);

/** Token counts as OpenAI's `usage`. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Sums the tokens of one request's generations. */
export interface UsageCounter {
  /**
   * Adds a finished or failed generation.
   * @param prompt index of the request's prompt. The `n` answers to one prompt count its tokens
   * once, as at OpenAI.
   * @param result undefined if the generation was cut short
   */
  add(prompt: number, promptTokens: number, completionTokens: number, result: GenerationResult | undefined): void;
  total(): Usage;
}

export function createUsage(metrics: Metrics): UsageCounter {
  const prompts = new Map<number, number>();
  let completion = 0;
  let cached = 0;
  return {
    add(prompt, promptTokens, completionTokens, result) {
      if (!prompts.has(prompt)) cached += result ? promptTokens - result.timings.promptTokens : 0;
      prompts.set(prompt, promptTokens);
      completion += completionTokens;
      metrics.generated(
        result?.timings.promptTokens ?? promptTokens,
        completionTokens,
        result?.timings.promptMs ?? 0,
        result?.timings.predictedMs ?? 0,
        result?.timings.draft,
      );
    },
    total() {
      const prompt = [...prompts.values()].reduce((sum, tokens) => sum + tokens, 0);
      return {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        prompt_tokens_details: { cached_tokens: cached },
      };
    },
  };
}

/**
 * Adds the keywords of the request's schema that were held only in part to an answer's field of our
 * own.
 */
export function relaxedIn(
  results: readonly (Pick<GenerationResult, 'relaxed'> | undefined)[],
  own: { quantlet?: object } = {},
): { quantlet?: object } {
  const relaxed = results.find((result) => result?.relaxed)?.relaxed;
  return relaxed ? { quantlet: { ...own.quantlet, relaxed } } : own;
}

/** llama-server's `timings`. */
export function timings({ timings: t }: Pick<GenerationResult, 'timings'>): object {
  const { promptTokens, promptMs, predictedTokens, predictedMs } = t;
  const per = (ms: number, tokens: number): number => (tokens > 0 ? ms / tokens : 0);
  const rate = (ms: number, tokens: number): number => (ms > 0 ? (1000 * tokens) / ms : 0);
  return {
    prompt_n: promptTokens,
    prompt_ms: promptMs,
    prompt_per_token_ms: per(promptMs, promptTokens),
    prompt_per_second: rate(promptMs, promptTokens),
    predicted_n: predictedTokens,
    predicted_ms: predictedMs,
    predicted_per_token_ms: predictedTokens > 1 ? predictedMs / predictedTokens : 0,
    predicted_per_second: predictedPerSecond(t),
    ...draftTimings(t),
  };
}

/**
 * llama-server's `prompt_progress`. While images are encoded, `images` has how many are, and a
 * fraction for the one in progress.
 */
export const promptProgress = ({ total, cached, done, ms, images }: Reading): object => ({
  prompt_progress: {
    total,
    cache: cached,
    processed: done,
    time_ms: Math.round(ms),
    ...(images ? { images: { done: images.done, total: images.total } } : {}),
  },
});

/**
 * Replaces each value of `source` by the values from `map`. Returns the return value of `source`,
 * and ends `source` if it is ended early.
 */
export async function* mapped<T, R, O>(source: AsyncGenerator<T, R>, map: (value: T) => readonly O[]): AsyncGenerator<O, R> {
  try {
    for (;;) {
      const next = await source.next();
      if (next.done) return next.value;
      for (const value of map(next.value)) yield value;
    }
  } finally {
    await source.return(undefined as never);
  }
}

/** Runs `source` to its end and returns what it returns. */
export async function drained<T, R>(source: AsyncGenerator<T, R>, each: (value: T) => void): Promise<R> {
  for (;;) {
    const next = await source.next();
    if (next.done) return next.value;
    each(next.value);
  }
}

/** An endpoint's parts of answer(). */
export interface Answer extends StreamProtocol {
  readonly body: Body;
  /** True if the answer is a stream. Default: the request's `stream`. */
  readonly streams?: boolean;
  /**
   * The generations to validate before a stream's header is sent. Until then a failure can have its
   * own HTTP status.
   */
  readonly generations: readonly (readonly [ids: readonly number[], options: GenerateOptions])[];
  /** The answer as events. Generation waits for `place`; the first events do not. */
  events(place: Promise<unknown>): AsyncGenerator<object | string, void>;
  /** The complete answer as one object. */
  whole(): Promise<object>;
}

/** Waits in the queue and answers, as events if the request has `stream`. */
export async function answer(context: Context, { body, streams, generations, events, whole, ...protocol }: Answer): Promise<Response> {
  const { queue, backend, signal } = context;
  if (!(streams ?? booleanField(body, 'stream'))) {
    const leave = await queue.enter(signal);
    const value = await whole().finally(leave);
    return jsonAnswer(context, await context.work(jsonPieces(value)));
  }
  const silence = pingMs(context, body);
  for (const [ids, options] of generations) await context.lane(async () => backend.checkGenerate?.(ids, options));
  const place = queue.enter(signal);
  await Promise.race([place, undefined]); // if the queue is full, `place` has been rejected already
  const leave = (): void =>
    void place.then(
      (leave) => leave(),
      () => undefined,
    );
  const { ping = COMMENT, streamError = context.errorBody, lines = false } = protocol;
  return eventStream(context, events(place), { ping, streamError, lines, pingMs: silence, leave });
}

/**
 * A longer answer is sent in pieces at its reader's speed, and its size counts as kept until it is
 * sent. A reader may be slow, or not read at all.
 */
const LARGE = 64 * 1024;

/**
 * A response from pieces of JSON.
 * @throws HttpError 503 if too many bytes are waiting to be read
 */
export function jsonAnswer(context: Context, pieces: readonly string[]): Response {
  const headers = { 'content-type': 'application/json' };
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  if (length <= LARGE) return new Response(pieces.join(''), { headers });
  const { signal } = context;
  const encoder = new TextEncoder();
  context.hold(length);
  context.open = true;
  let at = 0;
  let stop = (): void => {};
  const end = (status: number): void => {
    signal.removeEventListener('abort', stop);
    context.finish(status);
    context.atRest();
  };
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stop = () => {
          at = pieces.length;
          end(toHttpError(signal.reason).status);
          controller.error(signal.reason);
        };
        signal.addEventListener('abort', stop, { once: true });
      },
      pull(controller) {
        let text = '';
        while (at < pieces.length && text.length < LARGE) text += pieces[at++];
        controller.enqueue(encoder.encode(text));
        if (at < pieces.length) return;
        controller.close();
        end(200);
      },
      cancel: () => end(499),
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers });
}
