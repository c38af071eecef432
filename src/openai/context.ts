/** What the endpoints share: a request on its way, usage, answers whole or as server-sent events. */
import { newId } from '../chat/messages.ts';
import type { GenerationResult } from '../generate.ts';
import type { Backend } from './backend.ts';
import { errorBody, toHttpError } from './http-error.ts';
import type { Metrics } from './metrics.ts';
import type { Queue } from './queue.ts';

/** One request on its way. */
export interface Context {
  readonly backend: Backend;
  readonly queue: Queue;
  readonly metrics: Metrics;
  /** Aborted when the client is gone or the time is up. */
  readonly signal: AbortSignal;
  /** Control tokens in messages are read as those tokens. */
  readonly parseSpecial: boolean;
  /** Seconds since 1970, as `created` has it. */
  readonly created: number;
  abort(reason: unknown): void;
  /** The answer is complete (or will never be); called once, with the status that the log gets. */
  finish(status?: number): void;
  /** Nothing is computed for the request any more. */
  rest(): void;
}

/** The id of an answer, as OpenAI's look. */
export const answerId = (prefix: 'chatcmpl-' | 'cmpl-'): string => newId(prefix, 24);

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
      metrics.generated(result?.timings.promptTokens ?? promptTokens, completionTokens, result?.timings.promptMs ?? 0, result?.timings.predictedMs ?? 0);
    },
    total() {
      const prompt = [...prompts.values()].reduce((sum, tokens) => sum + tokens, 0);
      return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, prompt_tokens_details: { cached_tokens: cached } };
    },
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

/** So many bytes of an answer may wait for a slow reader before its generation pauses. */
const buffered = 256 * 1024;

/**
 * Server-sent events. The first one is made before the response, so that what goes wrong until then has its own status;
 * a later failure becomes an error event, after which nothing follows.
 */
async function eventStream(context: Context, source: AsyncGenerator<object | string, void>, leave: () => void): Promise<Response> {
  const { signal } = context;
  let first: IteratorResult<object | string, void> | undefined;
  try {
    first = await source.next();
    // A step that others share is finished, and its token comes although the client has gone: what has aborted tells nobody any more.
    signal.throwIfAborted();
  } catch (error) {
    await source.return().catch(() => undefined);
    leave();
    throw error;
  }
  // A reader that neither reads nor goes must not keep its place when the time is up.
  const stop = (): void => {
    void source.return().catch(() => undefined).finally(context.rest);
    end(toHttpError(signal.reason).status, false);
  };
  const end = (status?: number, atRest = true): void => {
    signal.removeEventListener('abort', stop);
    leave();
    context.finish(status);
    if (atRest) context.rest();
  };
  signal.addEventListener('abort', stop, { once: true });
  const encoder = new TextEncoder();
  const event = (data: object | string): Uint8Array => encoder.encode(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = first ?? (await source.next());
          first = undefined;
          signal.throwIfAborted();
          if (!next.done) {
            controller.enqueue(event(next.value));
            return;
          }
          controller.close();
          end();
        } catch (error) {
          const failure = toHttpError(error);
          end(failure.status);
          if (failure.status === 499) {
            controller.error(error);
            return;
          }
          controller.enqueue(event(errorBody(failure)));
          controller.close();
        }
      },
      cancel() {
        context.abort(new DOMException('The client closed the stream.', 'AbortError'));
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: buffered }),
  );
  return new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache', 'x-accel-buffering': 'no' } });
}

/** Waits for a place and answers: as events, or at once with what `whole` makes of them. */
export async function answer(context: Context, stream: boolean, source: () => AsyncGenerator<object | string, void>, whole: () => Promise<object>): Promise<Response> {
  const leave = await context.queue.enter(context.signal);
  if (stream) return eventStream(context, source(), leave);
  try {
    return Response.json(await whole());
  } finally {
    leave();
  }
}
