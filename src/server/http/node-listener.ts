/**
 * Adapts node:http's requests and responses to Request and Response. Imports nothing from Node: its
 * objects are passed as arguments.
 */
import { yieldToEventLoop } from '../../event-loop.ts';
import { HttpError } from './http-error.ts';

/** The members of node:http's IncomingMessage in use. */
export interface NodeRequest {
  /** The connection. Further requests may arrive on it before the first is answered. */
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

/** The members of node:http's ServerResponse in use. */
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

/** Maximum number of requests on one connection that wait for the answer to an earlier one. */
const MAX_PIPELINED = 16;

/**
 * Makes a handler a listener of node:http: `createServer(nodeListener(createHandler(model)))`. The
 * request's signal aborts if the client closes its connection. A slow reader slows only its own
 * generation. A client that reads or sends nothing for `stallMs` (0: no limit) is disconnected.
 * Pipelined requests on one connection are handled one after another.
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
      // Earlier requests are still answered. Destroying this response instead works only in old
      // versions of Node; newer ones forget it before its turn.
      if (!connection.full) void connection.last.finally(() => (request.socket.destroySoon ?? request.socket.destroy).call(request.socket));
      connection.full = true;
      return;
    }
    // Node parses all requests of a packet, possibly thousands, in one turn of the event loop.
    // Every request except the first gets a turn of its own.
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
    // A method that fetch forbids (TRACE), or invalid headers.
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
  // Most clients read the answer only after sending the whole body. If the connection were closed
  // earlier, they would see only the closed connection.
  if (await arrived(incoming, gone.signal)) outgoing.end();
  else outgoing.end(() => incoming.destroy());
}

/** Milliseconds to receive the rest of an unwanted body before the connection is closed. */
const LINGER_MS = 5000;

/** Discards the rest of the body; false if it does not arrive in time. */
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
  // The Host header is untrusted, and nothing here depends on it.
  return new Request(`http://localhost${url.replace(/^\w+:\/\/[^/]*/, '').replace(/^(?!\/)/, '/')}`, init as RequestInit);
}

/**
 * Calls `stalled` after `ms` milliseconds without a call of again() (0: never). end() stops the
 * timer.
 */
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

/** The body as a stream, received no faster than it is read. */
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
        // Here Node reports a client that disconnected in the middle of its body as an error.
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
        // Discards the rest, so that the client gets to read the answer.
        over = true;
        silence.end();
        incoming.resume();
      },
    },
    // Each chunk also costs its object: chunks may have one byte.
    { highWaterMark: 256 * 1024, size: (chunk) => chunk!.byteLength + 128 },
  );
}

/**
 * Writes the body no faster than the client reads. If the client disconnects, the body is
 * cancelled.
 */
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
    // A client that vanished or never reads would keep its connection, and the resources that
    // depend on it, forever.
    stalled.again();
    await new Promise<void>((resolve) => (wake = resolve));
    stalled.end();
  }
}
