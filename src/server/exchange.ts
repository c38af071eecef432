/** One request, from its arrival to the end of its answer, and the state that requests share. */
import { inSlices, type Work } from '../slices.ts';
import { clientErrorBody } from './protocols/anthropic.ts';
import type { Backend } from './backend.ts';
import type { Context } from './context.ts';
import type { Body } from './protocols/fields.ts';
import { errorResponse, HttpError, toHttpError } from './http/http-error.ts';
import { createMetrics } from './metrics.ts';
import { modelNamed, oneModel, type Lease, type Models } from './models.ts';
import { limitsOf, type HandlerOptions } from './options.ts';
import { createQueue, type Queue } from './queue.ts';
import type { Target } from './routes.ts';

/** Maximum characters of the header that names ignored parts. */
const LONGEST_HEADER = 1000;

/**
 * Minimum bytes of a large request. While its texts are tokenized or rendered, they take up to a
 * hundred bytes per character.
 */
const LARGE = 64 * 1024;

/**
 * Workerd's and Vercel's `ctx`: keeps the runtime from stopping work when the response has been
 * returned.
 */
export interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

/**
 * The second argument that runtimes pass: Workers' ctx, or objects of Deno and Bun, which are
 * ignored.
 */
export type Beside = Partial<Lifetime> | object;

/** State that all requests of a handler share. */
export class Server {
  readonly options: HandlerOptions;
  readonly limits: ReturnType<typeof limitsOf>;
  readonly models: Models;
  readonly metrics = createMetrics();
  /** Queue for large requests: two at a time. */
  readonly lane = createQueue(2, Infinity);
  /** Queue for requests that save or restore a sequence. */
  readonly states: Queue;
  /** Bytes kept for all unfinished requests. */
  buffered = 0;
  /**
   * Abort callbacks of running batch requests, called when an interactive request needs the slot or
   * model.
   */
  readonly batchAborts = new Set<() => void>();
  /**
   * Abort callbacks of all other requests. A set, because Node warns about many listeners on one
   * signal.
   */
  readonly #stops = new Set<() => void>();
  readonly #queues = new WeakMap<Backend, Queue>();

  constructor(served: Backend | Models, options: HandlerOptions) {
    this.options = options;
    this.limits = limitsOf(options);
    this.models = 'use' in served ? served : oneModel(served, options.checkModel ?? false);
    this.states = createQueue(1, this.limits.maxQueue);
    // The first text builds the tokenizer's tables, which is slow for a large vocabulary. Do it
    // now, not during a request.
    for (const { backend } of this.models.list()) backend?.tokenize('a');
    options.signal?.addEventListener('abort', () => this.#stops.forEach((stop) => stop()), { once: true });
  }

  queueOf(backend: Backend): Queue {
    const queue = this.#queues.get(backend) ?? createQueue(backend.parallel, this.limits.maxQueue);
    this.#queues.set(backend, queue);
    return queue;
  }

  /** Queues of all loaded models. */
  queues(): readonly Queue[] {
    return this.models.list().flatMap(({ backend }) => (backend ? [this.queueOf(backend)] : []));
  }

  /** Calls `stop` when the server stops. Returns a function that unregisters it. */
  onStop(stop: () => void): () => void {
    if (this.options.signal?.aborted) stop();
    else this.#stops.add(stop);
    return () => this.#stops.delete(stop);
  }
}

const stopping = (cause: unknown): HttpError =>
  new HttpError(503, 'The server is stopping. Try again in 1 s.', { code: 'unavailable', headers: { 'retry-after': '1' }, cause });

/** One request, and the context of its endpoint. */
export class Exchange implements Context {
  readonly request: Request;
  readonly options: HandlerOptions;
  readonly limits: Server['limits'];
  readonly models: Models;
  readonly metrics: Server['metrics'];
  readonly states: Queue;
  readonly maxMessages: number;
  readonly rest: string;
  readonly query: URLSearchParams;
  readonly created = Math.floor(Date.now() / 1000);
  readonly began = performance.now();
  loadMs = 0;
  readonly leftOut: string[] = [];
  readonly errorBody: Context['errorBody'];
  body: Body = {};
  open = false;
  readonly #server: Server;
  readonly #target: Target;
  /** True for a request of a batch, which has no time limit and the lowest priority. */
  readonly #background: boolean;
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #unlisten: () => void;
  /** Bytes kept for this request. */
  #bytes = 0;
  #lease: Lease | undefined;
  #finished = false;
  /** Tells the runtime that all work is done. */
  #over = (): void => {};

  constructor(server: Server, request: Request, target: Target, background: boolean, beside: Beside | undefined) {
    this.request = request;
    ({ options: this.options, limits: this.limits, models: this.models, metrics: this.metrics, states: this.states } = server);
    this.maxMessages = server.limits.maxMessages;
    this.rest = target.route?.rest ?? '';
    this.query = target.query;
    this.errorBody = (target.endpoint ?? target.route?.endpoints[0])?.errorBody ?? clientErrorBody(request);
    this.#server = server;
    this.#target = target;
    this.#background = background;
    this.#unlisten = this.#listen();
    const { timeoutMs } = server.limits;
    if (timeoutMs > 0 && !background)
      this.#timer = setTimeout(() => this.abort(new DOMException('The time is up.', 'TimeoutError')), timeoutMs);
    if (beside && 'waitUntil' in beside) beside.waitUntil?.(new Promise<void>((resolve) => (this.#over = resolve)));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The chosen model. Must not be read before choose() or look(). */
  get backend(): Backend {
    return this.#lease!.backend;
  }

  get queue(): Queue {
    const queue = this.#server.queueOf(this.backend);
    return this.#background ? { ...queue, enter: (signal) => queue.enter(signal, this.#gone) } : queue;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /**
   * Leases the model with this name, or the default one. If it must be loaded for an interactive
   * request, running batch requests are aborted, which releases their models.
   */
  async choose(name: string | undefined): Promise<void> {
    const asked = performance.now();
    const leased = this.models.use(name, this.signal);
    const all = this.models.list();
    const wanted = name === undefined ? all[0] : modelNamed(all, name);
    if (!this.#background && wanted && !wanted.backend) for (const abort of this.#server.batchAborts) abort();
    this.#lease = await leased;
    this.loadMs = performance.now() - asked;
  }

  /** Leases a model if it is loaded; otherwise returns false. */
  look(name: string | undefined): boolean {
    this.#lease = this.models.look(name);
    return this.#lease !== undefined;
  }

  readonly queues = (): readonly Queue[] => this.#server.queues();

  readonly hold = (more: number): void => {
    if (this.#finished) return;
    this.#bytes += more;
    this.#server.buffered += more;
    const { maxBufferedBytes } = this.limits;
    if (this.#server.buffered > maxBufferedBytes && !this.#background)
      throw new HttpError(503, `More than ${maxBufferedBytes} bytes of requests and answers are waiting already. Try again in 1 s.`, {
        code: 'busy',
        headers: { 'retry-after': '1' },
      });
  };

  async lane<T>(run: () => Promise<T>): Promise<T> {
    const leave = this.#bytes > LARGE ? await this.#server.lane.enter(this.signal) : undefined;
    try {
      return await run();
    } finally {
      leave?.();
    }
  }

  work<T>(slices: Work<T>): Promise<T> {
    return this.lane(() => inSlices(slices, this.signal));
  }

  report(error: unknown): void {
    const { status, cause } = toHttpError(error);
    if (status >= 500 && !this.options.signal?.aborted) this.options.onError?.(cause ?? error);
  }

  failure(error: unknown): HttpError {
    return toHttpError(error, this.body);
  }

  /** The response to a failure before the answer has begun. */
  fail(error: unknown): Response {
    this.report(error);
    this.open = false;
    return errorResponse(this.failure(error), this.errorBody);
  }

  /** Adds headers to the response, and ends the request unless its answer continues. */
  respond(response: Response, headers: Readonly<Record<string, string>>): Response {
    const { headers: own } = response;
    for (const [name, value] of Object.entries(headers))
      if (name === 'vary') own.append(name, value);
      else own.set(name, value);
    if (this.leftOut.length > 0) own.set('x-quantlet-left-out', this.leftOut.join(', ').slice(0, LONGEST_HEADER));
    if (!this.open) {
      this.finish(response.status);
      this.atRest();
    }
    return response;
  }

  finish(status = 200): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#unlisten();
    this.#server.buffered -= this.#bytes;
    clearTimeout(this.#timer);
    const { path, route } = this.#target;
    this.metrics.request(route?.path ?? 'other', status);
    if (!this.#background) this.options.onAccess?.({ method: this.request.method, path, status, ms: performance.now() - this.began });
  }

  readonly atRest = (): void => {
    this.#lease?.release();
    this.#over();
  };

  readonly #gone = (): void => this.abort(new DOMException('The client closed the request.', 'AbortError'));

  /**
   * Aborts if the client disconnects, the server stops, or (for a batch) an interactive request
   * needs the slot or model. Returns a function that unregisters the listeners.
   */
  #listen(): () => void {
    const gone = this.#gone;
    const { signal } = this.request;
    const { batchAborts } = this.#server;
    let unlisten = (): void => void batchAborts.delete(gone);
    if (this.#background) batchAborts.add(gone);
    else unlisten = this.#server.onStop(() => this.abort(stopping(this.options.signal?.reason)));
    if (signal.aborted) gone();
    else signal.addEventListener('abort', gone, { once: true });
    return () => {
      unlisten();
      signal.removeEventListener('abort', gone);
    };
  }
}
