/** node:http's requests and responses as Request and Response. Nothing of Node is imported: its objects come as arguments. */
import { yieldToEventLoop } from '../threads/executor.ts';
import { HttpError } from './http-error.ts';

/** What is needed of node:http's IncomingMessage. */
export interface NodeRequest {
  /** The connection, on which requests may follow each other before the first is answered. */
  readonly socket: { destroySoon?(): unknown; destroy(): unknown };
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
  /** The whole message has arrived. */
  readonly complete: boolean;
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  on(event: 'end' | 'close' | 'error', listener: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
}

/** What is needed of node:http's ServerResponse. */
export interface NodeResponse {
  readonly writableFinished: boolean;
  readonly destroyed: boolean;
  writeHead(status: number, headers: string[]): unknown;
  write(chunk: Uint8Array): boolean;
  end(done?: () => void): unknown;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
}

const withoutBody = ['GET', 'HEAD', 'OPTIONS'];

/** Requests that may wait on one connection for the answer to an earlier one. */
const MAX_PIPELINED = 16;

/**
 * A handler as the listener of node:http: `createServer(nodeListener(createHandler(model)))`. The request's signal aborts when the
 * client closes its connection; a client that reads slowly slows its generation, and nobody else's, and one that takes or sends
 * nothing for `stallMs` (0: however long) is given up. Requests that come on one connection without waiting for answers are handled one after the other.
 */
export function nodeListener(
  handler: (request: Request) => Promise<Response>,
  { stallMs = 60_000 } = {},
): (request: NodeRequest, response: NodeResponse) => void {
  const connections = new WeakMap<object, { last: Promise<void>; waiting: number; full: boolean }>();
  return (request, response) => {
    const given = connections.get(request.socket);
    const connection = given ?? { last: Promise.resolve(), waiting: 0, full: false };
    if (!given) connections.set(request.socket, connection);
    if (connection.waiting >= MAX_PIPELINED) {
      // Those before it are answered. To destroy its response would do on old versions of Node alone: newer ones forget that before its turn.
      if (!connection.full) void connection.last.finally(() => (request.socket.destroySoon ?? request.socket.destroy).call(request.socket));
      connection.full = true;
      return;
    }
    // All requests of a packet, and that may be thousands, are parsed in one turn of the event loop: each but the first is given its own.
    const turn = connection.waiting++ > 0 ? connection.last.then(yieldToEventLoop) : undefined;
    const answered = turn ? turn.then(() => answer(handler, request, response, stallMs)) : answer(handler, request, response, stallMs);
    connection.last = answered.catch(() => void response.destroy()).finally(() => void connection.waiting--);
  };
}

async function answer(
  handler: (request: Request) => Promise<Response>,
  incoming: NodeRequest,
  outgoing: NodeResponse,
  stallMs: number,
): Promise<void> {
  if (outgoing.destroyed) return;
  const gone = new AbortController();
  outgoing.on('close', () => {
    if (!outgoing.writableFinished) gone.abort(new DOMException('The client closed the connection.', 'AbortError'));
  });
  let request: Request;
  try {
    request = requestOf(incoming, gone.signal, stallMs);
  } catch {
    // A method that fetch forbids (TRACE), or headers that are none.
    outgoing.writeHead(400, ['content-type', 'application/json', 'connection', 'close']);
    outgoing.write(
      new TextEncoder().encode(
        '{"error":{"message":"The request cannot be read.","type":"invalid_request_error","param":null,"code":"bad_request"}}',
      ),
    );
    outgoing.end();
    return;
  }
  const response = await handler(request);
  const headers = [...response.headers].flat();
  outgoing.writeHead(response.status, headers);
  if (response.body && incoming.method !== 'HEAD') await pump(response.body, outgoing, stallMs);
  // Most clients read their answer when they have sent all: closed before, the connection would be all that they see.
  if (await arrived(incoming, gone.signal)) outgoing.end();
  else outgoing.end(() => incoming.destroy());
}

/** Milliseconds for the rest of a body that is not wanted any more; then its connection is closed. */
const LINGER_MS = 5000;

/** Lets the rest of a body through to nowhere; false where it has not arrived in time. */
async function arrived(incoming: NodeRequest, gone: AbortSignal): Promise<boolean> {
  if (incoming.complete || gone.aborted) return true;
  const over = new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), LINGER_MS);
    const end = (): void => (clearTimeout(timer), resolve(true));
    incoming.on('end', end);
    incoming.on('close', end);
    gone.addEventListener('abort', end, { once: true });
  });
  incoming.resume();
  return over;
}

function requestOf(incoming: NodeRequest, signal: AbortSignal, stallMs: number): Request {
  const headers = new Headers();
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) headers.append(incoming.rawHeaders[i], incoming.rawHeaders[i + 1]);
  const { method = 'GET', url = '/' } = incoming;
  const init = { method, headers, signal, ...(withoutBody.includes(method) ? {} : { body: bodyOf(incoming, stallMs), duplex: 'half' }) };
  // The host is the client's word and nothing here depends on it.
  return new Request(`http://localhost${url.replace(/^\w+:\/\/[^/]*/, '').replace(/^(?!\/)/, '/')}`, init as RequestInit);
}

/** Calls back once nothing has happened for so many milliseconds (0: never); again() begins anew, end() ends it. */
function stallTimer(ms: number, stalled: () => void): { again(): void; end(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = (): void => clearTimeout(timer);
  return {
    again() {
      end();
      if (ms > 0) timer = setTimeout(stalled, ms);
    },
    end,
  };
}

/** The body as it arrives, no faster than it is read. */
function bodyOf(incoming: NodeRequest, stallMs: number): ReadableStream<Uint8Array> {
  let over = false;
  let stall = (): void => {};
  const silence = stallTimer(stallMs, () => stall());
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = (finish: () => void) => (): void => {
          if (over) return;
          over = true;
          silence.end();
          finish();
        };
        stall = end(() => controller.error(new HttpError(408, `Nothing of the body arrived for ${stallMs} ms.`, { code: 'timeout' })));
        silence.again();
        incoming.on('data', (chunk) => {
          if (over) return;
          silence.again();
          controller.enqueue(chunk);
          if ((controller.desiredSize ?? 0) > 0) return;
          silence.end();
          incoming.pause();
        });
        incoming.on(
          'end',
          end(() => controller.close()),
        );
        // What Node calls an error here is a client that has gone in the middle of its body.
        for (const event of ['error', 'close'] as const)
          incoming.on(
            event,
            end(() => controller.error(new DOMException('The client closed the connection.', 'AbortError'))),
          );
      },
      pull() {
        if (!over) silence.again();
        incoming.resume();
      },
      cancel() {
        // The rest is let through to nowhere, so that the client gets to read why.
        over = true;
        silence.end();
        incoming.resume();
      },
    },
    // Beside its bytes, each chunk costs what keeps it: chunks may be of one byte.
    { highWaterMark: 256 * 1024, size: (chunk) => chunk!.byteLength + 128 },
  );
}

/** Writes what comes, no faster than the client takes it; a client that went away ends the source. */
async function pump(body: ReadableStream<Uint8Array>, outgoing: NodeResponse, stallMs: number): Promise<void> {
  const reader = body.getReader();
  let wake = (): void => {};
  outgoing.on('drain', () => wake());
  outgoing.on('close', () => {
    wake();
    void reader.cancel().catch(() => undefined);
  });
  const stalled = stallTimer(stallMs, () => outgoing.destroy());
  if (outgoing.destroyed) await reader.cancel();
  for (;;) {
    const { done, value } = await reader.read();
    if (done || outgoing.destroyed) return;
    if (outgoing.write(value)) continue;
    // A client that has gone without a word, or never reads, would keep its connection and what waits for it for ever.
    stalled.again();
    await new Promise<void>((resolve) => (wake = resolve));
    stalled.end();
  }
}
