/** Answers as server-sent events: the header goes out at once, and pings while nothing else is to say. */
import { numberField, type Body } from './fields.ts';
import { toHttpError, type HttpError } from './http-error.ts';
import type { Limits } from './options.ts';

/** Bytes of an answer that may wait for a slow reader before its generation pauses. */
const BUFFERED = 256 * 1024;
const encoder = new TextEncoder();

/** The longest time that setTimeout takes. */
const MOST_MS = 2 ** 31 - 1;
const MOST_SECONDS = 2 ** 31 - 1;

/** An event, or a comment, which says nothing: a line that begins with a colon. */
type Event = object | string;
export const COMMENT = ':';

/** An object with a `type` is an event of that name, as OpenAI's responses and Anthropic's messages have them. */
function eventBytes(data: Event): Uint8Array {
  if (data === COMMENT) return encoder.encode(':\n\n');
  if (typeof data === 'string') return encoder.encode(`data: ${data}\n\n`);
  const name = 'type' in data ? `event: ${String(data.type)}\n` : '';
  return encoder.encode(`${name}data: ${JSON.stringify(data)}\n\n`);
}

/** How a protocol writes what is no part of an answer. */
export interface StreamProtocol {
  /** Sent when nothing else was for a while: clients and proxies give up a connection without a byte. Default: a comment. */
  readonly ping?: Event;
  /** A failure as the last event. Default: as the protocol writes failures elsewhere. */
  readonly streamError?: (error: HttpError) => object;
}

/** Milliseconds of silence before a ping, as llama-server's `sse_ping_interval` (seconds) and the server's default say; 0: none. @throws HttpError 400 */
export function pingMs({ limits }: { readonly limits: Limits }, body: Body): number {
  const seconds = numberField(body, 'sse_ping_interval', { least: -1, most: MOST_SECONDS, integer: true });
  return seconds === undefined ? limits.ssePingMs : Math.min(MOST_MS, Math.max(0, seconds) * 1000);
}

/** What a stream needs of its request's Context. */
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

/** What a promise gives, or SILENCE where it takes longer than so many milliseconds (0: however long it takes). */
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

const responseOf = (body: ReadableStream<Uint8Array>): Response =>
  new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
  });

const byteStream = (source: UnderlyingDefaultSource<Uint8Array>): ReadableStream<Uint8Array> =>
  new ReadableStream(source, new ByteLengthQueuingStrategy({ highWaterMark: BUFFERED }));

interface EventStreamOptions extends Required<StreamProtocol> {
  readonly pingMs: number;
  /** Gives up the request's place; called when nothing comes any more. */
  readonly leave: () => void;
}

/** The events of a source as the body of a response. A failure becomes an error event, after which nothing follows. */
export function eventStream(
  context: StreamContext,
  source: AsyncGenerator<Event, void>,
  { ping, pingMs, streamError, leave }: EventStreamOptions,
): Response {
  const { signal } = context;
  // A reader that neither reads nor goes must not keep its place when the time is up.
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
        pending.catch(() => undefined); // nobody may be waiting for it when it fails
        const next = await within(pending, pingMs);
        // A step that others share goes on after an abort; its token is dropped.
        signal.throwIfAborted();
        if (next === SILENCE) return controller.enqueue(eventBytes(ping));
        pending = undefined;
        if (!next.done) return controller.enqueue(eventBytes(next.value));
        controller.close();
        end();
      } catch (error) {
        const failure = context.failure(error);
        end(failure.status);
        if (failure.status === 499) return controller.error(error);
        context.report(error);
        controller.enqueue(eventBytes(streamError(failure)));
        controller.close();
      }
    },
    cancel() {
      context.abort(new DOMException('The client closed the stream.', 'AbortError'));
    },
  });
  return responseOf(body);
}

/**
 * A response that is to be a stream of events, or where it takes longer than a ping's interval (its model is being loaded, or waits for the place of
 * another), a stream that pings until it comes.
 */
export async function promptly(
  context: StreamContext,
  pingMs: number,
  response: Promise<Response>,
  { ping = COMMENT, streamError = context.errorBody }: StreamProtocol,
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
    start: (controller) => controller.enqueue(eventBytes(ping)),
    async pull(controller) {
      try {
        const got = reader ? undefined : await within(response, pingMs);
        if (got === SILENCE) return controller.enqueue(eventBytes(ping));
        reader ??= got!.body!.getReader();
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        const failure = context.failure(error);
        if (reader || failure.status === 499) return controller.error(error);
        context.report(error);
        controller.enqueue(eventBytes(streamError(failure)));
        controller.close();
      }
    },
    cancel(reason) {
      context.abort(new DOMException('The client closed the stream.', 'AbortError'));
      void reader?.cancel(reason).catch(() => undefined);
    },
  });
  return responseOf(body);
}
