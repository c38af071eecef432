/** One request from its arrival to the end of its answer, and the state that requests share. */
import { inSlices, type Work } from '../slices.ts';
import { clientErrorBody } from './anthropic.ts';
import type { Backend } from './backend.ts';
import type { Context } from './context.ts';
import type { Body } from './fields.ts';
import { errorResponse, HttpError, toHttpError } from './http-error.ts';
import { createMetrics } from './metrics.ts';
import { oneModel, type Lease, type Models } from './models.ts';
import { limitsOf, type HandlerOptions } from './options.ts';
import { createQueue, type Queue } from './queue.ts';
import type { Target } from './routes.ts';

/** Characters of a header that names what was left out. */
const LONGEST_HEADER = 1000;

/** Bytes of a large request. Its texts take up to a hundred bytes for each character while they are tokenized or rendered. */
const LARGE = 64 * 1024;

/** Workerd's and Vercel's `ctx`: keeps work from being cut off when its request is over. */
export interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

/** The second argument that servers pass: Workers' ctx; Deno's and Bun's own objects, which are ignored. */
export type Beside = Partial<Lifetime> | object;

/** State that all requests of a handler share. */
export class Server {
  readonly options: HandlerOptions;
  readonly limits: ReturnType<typeof limitsOf>;
  readonly models: Models;
  readonly metrics = createMetrics();
  /** Lets large requests in, two at a time. */
  readonly lane = createQueue(2, Infinity);
  /** Lets requests in that save or restore a sequence. */
  readonly states: Queue;
  /** Bytes kept for all requests that are not finished. */
  buffered = 0;
  /** Abort callbacks of running batch requests, called when an interactive request needs the slot or model. */
  readonly batchAborts = new Set<() => void>();
  /** Abort callbacks of all other requests. (A listener for each at one signal would be too many for Node.) */
  readonly #stops = new Set<() => void>();
  readonly #queues = new WeakMap<Backend, Queue>();

  constructor(served: Backend | Models, options: HandlerOptions) {
    this.options = options;
    this.limits = limitsOf(options);
    this.models = 'use' in served ? served : oneModel(served, options.checkModel ?? false);
    this.states = createQueue(1, this.limits.maxQueue);
    // The first text builds the tokenizer's tables, which takes a good part of a second for 100 thousand tokens: now, not in a request.
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

  /** Calls `stop` when the server stops. Returns a function that ends that. */
  onStop(stop: () => void): () => void {
    if (this.options.signal?.aborted) stop();
    else this.#stops.add(stop);
    return () => this.#stops.delete(stop);
  }
}

const stopping = (cause: unknown): HttpError =>
  new HttpError(503, 'The server is stopping. Try again in 1 s.', { code: 'unavailable', headers: { 'retry-after': '1' }, cause });

/** One request. Endpoints see it as their context. */
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
  readonly leftOut: string[] = [];
  readonly errorBody: Context['errorBody'];
  body: Body = {};
  open = false;
  readonly #server: Server;
  readonly #target: Target;
  /** It is a request of a batch: it has no limit of time, and comes after all others. */
  readonly #background: boolean;
  readonly #start = performance.now();
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #unlisten: () => void;
  /** Bytes kept for it. */
  #bytes = 0;
  #lease: Lease | undefined;
  #finished = false;
  /** Tells the runtime that no work is left. */
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

  /** The chosen model. Nobody asks for it before one is chosen. */
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

  /** Leases the model with this name, or the default one. An interactive request that has to load one makes batch requests give up theirs. */
  async choose(name: string | undefined): Promise<void> {
    const leased = this.models.use(name, this.signal);
    const wanted = this.models.list().find(({ id }) => id === (name ?? id));
    if (!this.#background && wanted && !wanted.backend) for (const abort of this.#server.batchAborts) abort();
    this.#lease = await leased;
  }

  /** Leases a model that is loaded; false if it is not. */
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
    for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
    if (this.leftOut.length > 0) response.headers.set('x-quantlet-left-out', this.leftOut.join(', ').slice(0, LONGEST_HEADER));
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
    if (!this.#background) this.options.onAccess?.({ method: this.request.method, path, status, ms: performance.now() - this.#start });
  }

  readonly atRest = (): void => {
    this.#lease?.release();
    this.#over();
  };

  readonly #gone = (): void => this.abort(new DOMException('The client closed the request.', 'AbortError'));

  /** Aborts when the client leaves or the server stops, or (of a batch) for another request. Returns a function that ends that. */
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
