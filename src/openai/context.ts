/** What the endpoints share: a request on its way, usage, answers whole or as events. */
import { newId } from '../chat/messages.ts';
import { draftTimings, predictedPerSecond, type GenerateOptions, type GenerationResult } from '../generate/generate.ts';
import type { Work } from '../slices.ts';
import type { Backend } from './backend.ts';
import { COMMENT, eventStream, pingMs, type StreamProtocol } from './event-stream.ts';
import { booleanField, type Body } from './fields.ts';
import { toHttpError, type HttpError } from './http-error.ts';
import { jsonPieces } from './json-pieces.ts';
import type { Metrics } from './metrics.ts';
import type { Models } from './models.ts';
import type { HandlerOptions, Limits } from './options.ts';
import type { Queue } from './queue.ts';

/** One request on its way. */
export interface Context {
  readonly options: HandlerOptions;
  readonly limits: Limits;
  readonly request: Request;
  /** What the path has behind the endpoint's own, and what follows the question mark. */
  readonly rest: string;
  readonly query: URLSearchParams;
  /** All models; of the one that the request is for, where the endpoint is about one: */
  readonly models: Models;
  readonly backend: Backend;
  /** Of the requests that generate with it. */
  readonly queue: Queue;
  /** Those of all models that are loaded. */
  queues(): readonly Queue[];
  readonly metrics: Metrics;
  /** Lets in one at a time that saves or restores a sequence. */
  readonly states: Queue;
  /** Aborted when the client is gone or the time is up. */
  readonly signal: AbortSignal;
  /** Lets large requests do what takes memory two at a time. @throws the signal's reason */
  lane<T>(run: () => Promise<T>): Promise<T>;
  /** Does work in slices, in the lane. @throws the signal's reason */
  work<T>(work: Work<T>): Promise<T>;
  /** Messages of a conversation at most. */
  readonly maxMessages: number;
  /** Tells the server's owner of a failure that is the server's own. */
  report(error: unknown): void;
  /** The request's body, empty until it is read. */
  body: Body;
  /** Any failure, which names the fields of that body. */
  readonly failure: (error: unknown) => HttpError;
  /** A failure as the protocol of the endpoint, or of the client, writes it. */
  readonly errorBody: (error: HttpError) => object;
  /** Parts of the request that the answer was made without; its header x-quantlet-left-out names them. */
  readonly leftOut: string[];
  /** Seconds since 1970, as `created` has it. */
  readonly created: number;
  /**
   * Counts bytes that are kept for this request until it is finished, of its body or its answer.
   * @throws HttpError 503 where all requests together keep too many already
   */
  hold(bytes: number): void;
  /** The answer goes on after it has been returned: whoever sends it calls finish() at its end. */
  open: boolean;
  abort(reason: unknown): void;
  /** The answer is complete (or will never be); called once, with the status that the log gets. */
  finish(status?: number): void;
  /** Nothing is computed for the request any more. */
  atRest(): void;
}

/** The id of an answer or a part of one, as OpenAI's and Anthropic's look. */
export const answerId = (prefix: 'chatcmpl-' | 'cmpl-' | 'resp_' | 'msg_' | 'rs_' | 'fc_'): string => newId(prefix, 24);

/** Token counts as OpenAI's `usage`. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Counts what the generations of one request cost. */
export interface UsageCounter {
  /**
   * One generation has ended, however it did.
   * @param prompt which of the request's prompts it was for: the `n` answers to one prompt count its tokens once, as OpenAI does
   * @param result undefined where it was cut short
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

/** What llama-server calls `timings`. */
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

/** Each value of `source` as the ones that `map` makes of it; returns what `source` returns, and ends it when ended early. */
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

/** What answer() takes of an endpoint. */
export interface Answer extends StreamProtocol {
  readonly body: Body;
  /** The generations that it will ask for, to be checked before a stream's header goes out: until then a failure has a status of its own. */
  readonly generations: readonly (readonly [ids: readonly number[], options: GenerateOptions])[];
  /** The answer as events. What it sends first does not wait for `place`, in which it generates. */
  events(place: Promise<unknown>): AsyncGenerator<object | string, void>;
  /** The same at once. */
  whole(): Promise<object>;
}

/** Waits for a place and answers, as events where the request has `stream`. */
export async function answer(context: Context, { body, generations, events, whole, ...protocol }: Answer): Promise<Response> {
  const { queue, backend, signal } = context;
  if (!booleanField(body, 'stream')) {
    const leave = await queue.enter(signal);
    const value = await whole().finally(leave);
    return jsonAnswer(context, await context.work(jsonPieces(value)));
  }
  const silence = pingMs(context, body);
  for (const [ids, options] of generations) await context.lane(async () => backend.checkGenerate?.(ids, options));
  const place = queue.enter(signal);
  await Promise.race([place, undefined]); // where too many wait, it has been refused already
  const leave = (): void =>
    void place.then(
      (leave) => leave(),
      () => undefined,
    );
  const { ping = COMMENT, streamError = context.errorBody } = protocol;
  return eventStream(context, events(place), { ping, streamError, pingMs: silence, leave });
}

/** An answer of more characters is sent piece by piece as its reader takes it, and counts until then: readers may be slow, or read nothing. */
const LARGE = 64 * 1024;

/** Pieces of JSON as a response. @throws HttpError 503 where too many bytes wait to be read already */
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
