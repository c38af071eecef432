/**
 * Answers as server-sent events or JSON lines. The header is sent at once, and pings during silence.
 */
import { numberField, type Body } from '../protocols/fields.ts';
import { toHttpError, type HttpError } from './http-error.ts';
import type { Limits } from '../options.ts';

/** Maximum bytes of an answer that wait for a slow reader before its generation pauses. */
const BUFFERED = 256 * 1024;
const encoder = new TextEncoder();

/** Maximum delay of setTimeout. */
const MOST_MS = 2 ** 31 - 1;
const MOST_SECONDS = 2 ** 31 - 1;

/** An event, or a comment: a line that begins with a colon, which clients ignore. */
type Event = object | string;
export const COMMENT = ':';

/**
 * Encodes an event. An object's `type` is also the event's name, as in OpenAI's responses and
 * Anthropic's messages. With `lines`, a string is a line that is JSON already.
 */
function eventBytes(data: Event, lines: boolean): Uint8Array {
  if (lines) return encoder.encode(`${typeof data === 'string' ? data : JSON.stringify(data)}\n`);
  if (data === COMMENT) return encoder.encode(':\n\n');
  if (typeof data === 'string') return encoder.encode(`data: ${data}\n\n`);
  const name = 'type' in data ? `event: ${String(data.type)}\n` : '';
  return encoder.encode(`${name}data: ${JSON.stringify(data)}\n\n`);
}

/** Events of a protocol that are not part of an answer. */
export interface StreamProtocol {
  /**
   * Sent after a period of silence, because clients and proxies close an idle connection. Default:
   * a comment.
   */
  readonly ping?: Event;
  /** A failure as the last event. Default: the protocol's usual format of failures. */
  readonly streamError?: (error: HttpError) => object;
  /** Sends JSON lines (NDJSON), as Ollama does. Then `ping` is an object, because these have no comments. */
  readonly lines?: boolean;
}

/**
 * Milliseconds of silence before a ping: llama-server's `sse_ping_interval` (seconds) or the
 * server's default; 0: never.
 * @throws HttpError 400
 */
export function pingMs({ limits }: { readonly limits: Limits }, body: Body): number {
  const seconds = numberField(body, 'sse_ping_interval', { least: -1, most: MOST_SECONDS, integer: true });
  return seconds === undefined ? limits.ssePingMs : Math.min(MOST_MS, Math.max(0, seconds) * 1000);
}

/** The members of Context that a stream uses. */
interface StreamContext {
  readonly signal: AbortSignal;
  open: boolean;
  failure(error: unknown): HttpError;
  errorBody(error: HttpError): object;
  report(error: unknown): void;
  abort(reason: unknown): void;
  finish(status?: number): void;
  atRest(): void;
}

const SILENCE = Symbol();

/** The value of a promise, or SILENCE if it takes longer than `ms` milliseconds (0: no limit). */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | typeof SILENCE> {
  if (ms === 0) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<typeof SILENCE>((resolve) => (timer = setTimeout(() => resolve(SILENCE), ms)));
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}

const responseOf = (body: ReadableStream<Uint8Array>, lines: boolean): Response =>
  new Response(body, {
    headers: {
      'content-type': lines ? 'application/x-ndjson' : 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  });

const byteStream = (source: UnderlyingDefaultSource<Uint8Array>): ReadableStream<Uint8Array> =>
  new ReadableStream(source, new ByteLengthQueuingStrategy({ highWaterMark: BUFFERED }));

interface EventStreamOptions extends Required<StreamProtocol> {
  readonly pingMs: number;
  /** Leaves the queue; called when the stream has ended. */
  readonly leave: () => void;
}

/**
 * A response that streams the events of a source. A failure becomes an error event, which is the
 * last one.
 */
export function eventStream(
  context: StreamContext,
  source: AsyncGenerator<Event, void>,
  { ping, pingMs, streamError, leave, lines }: EventStreamOptions,
): Response {
  const { signal } = context;
  // At the time limit, also ends a stream whose reader neither reads nor disconnects.
  const stop = (): void => {
    void source
      .return()
      .catch(() => undefined)
      .finally(context.atRest);
    end(toHttpError(signal.reason).status, false);
  };
  const end = (status?: number, atRest = true): void => {
    signal.removeEventListener('abort', stop);
    leave();
    context.finish(status);
    if (atRest) context.atRest();
  };
  signal.addEventListener('abort', stop, { once: true });
  context.open = true;
  let pending: Promise<IteratorResult<Event, void>> | undefined;
  const body = byteStream({
    async pull(controller) {
      try {
        pending ??= source.next();
        pending.catch(() => undefined); // avoids an unhandled rejection if it fails while nobody waits
        const next = await within(pending, pingMs);
        // A step shared with other requests completes after an abort; its token is dropped.
        signal.throwIfAborted();
        if (next === SILENCE) return controller.enqueue(eventBytes(ping, lines));
        pending = undefined;
        if (!next.done) return controller.enqueue(eventBytes(next.value, lines));
        controller.close();
        end();
      } catch (error) {
        const failure = context.failure(error);
        end(failure.status);
        if (failure.status === 499) return controller.error(error);
        context.report(error);
        controller.enqueue(eventBytes(streamError(failure), lines));
        controller.close();
      }
    },
    cancel() {
      context.abort(new DOMException('The client closed the stream.', 'AbortError'));
    },
  });
  return responseOf(body, lines);
}

/**
 * Returns the response if it arrives within the ping interval. Otherwise, for example while its
 * model loads, returns a stream that sends pings until the response arrives and then forwards its
 * body.
 */
export async function promptly(
  context: StreamContext,
  pingMs: number,
  response: Promise<Response>,
  { ping = COMMENT, streamError = context.errorBody, lines = false }: StreamProtocol,
): Promise<Response> {
  const first = await within(response, pingMs);
  if (first !== SILENCE) return first;
  context.open = true;
  response.catch((error: unknown) => {
    context.finish(toHttpError(error).status);
    context.atRest();
  });
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const body = byteStream({
    start: (controller) => controller.enqueue(eventBytes(ping, lines)),
    async pull(controller) {
      try {
        const got = reader ? undefined : await within(response, pingMs);
        if (got === SILENCE) return controller.enqueue(eventBytes(ping, lines));
        reader ??= got!.body!.getReader();
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        const failure = context.failure(error);
        if (reader || failure.status === 499) return controller.error(error);
        context.report(error);
        controller.enqueue(eventBytes(streamError(failure), lines));
        controller.close();
      }
    },
    cancel(reason) {
      context.abort(new DOMException('The client closed the stream.', 'AbortError'));
      void reader?.cancel(reason).catch(() => undefined);
    },
  });
  return responseOf(body, lines);
}
