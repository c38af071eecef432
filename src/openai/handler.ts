/** createHandler: requests to their endpoints, with limits, keys, CORS and the access log. */
import { QuantletError } from '../errors.ts';
import { checkOptions } from '../options.ts';
import { clientErrorBody, countMessageTokens, messages, MESSAGES_STREAM, messagesError } from './anthropic.ts';
import type { Backend } from './backend.ts';
import { batch, batchFile, cancelBatch, createBatch, deleteFile, listBatches, listFiles, uploadFile } from './batches.ts';
import { chatCompletions, chatInputTokens } from './chat.ts';
import { completions } from './completions.ts';
import type { Context } from './context.ts';
import { pingMs, promptly, type StreamProtocol } from './event-stream.ts';
import { stringField, type Body } from './fields.ts';
import { errorResponse, HttpError, toHttpError } from './http-error.ts';
import { createMetrics } from './metrics.ts';
import { infill } from './infill.ts';
import { oneModel, type Lease, type Models } from './models.ts';
import {
  applyTemplate,
  completion,
  detokenize,
  loadModel,
  loraAdapters,
  modelInfo,
  modelList,
  noProps,
  props,
  setLoraAdapters,
  setProps,
  tokenize,
  unloadModel,
} from './native.ts';
import { HANDLER_OPTIONS, limitsOf, type HandlerOptions } from './options.ts';
import { PAGE_FILES } from './page-files.ts';
import { createQueue, type Queue } from './queue.ts';
import { checkHost, checkKey, corsHeaders, jsonRequest, preflight, readBody } from './request.ts';
import { responseInputTokens, responses, RESPONSES_STREAM } from './responses.ts';
import { listSlots, noSlots, slotAction } from './slots.ts';
import { inSlices, type Work } from '../slices.ts';
import { embeddings, rerank } from './vectors.ts';

/** A regular expression would look for the end from every slash: a path of slashes alone, which anyone may send, took a time quadratic in its length. */
function withoutEndSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end--;
  return path.slice(0, end);
}

/** Characters of a header that names what was left out. */
const LONGEST_HEADER = 1000;

/** Bytes of a request whose texts take memory worth counting while they are tokenized or rendered: up to a hundred for each character. */
const LARGE = 64 * 1024;

interface Endpoint {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly run: (context: Context, body: Body) => Response | Promise<Response>;
  /** For everyone, without a key. */
  readonly open?: boolean;
  /** It is about all models or none: no model is loaded for it. */
  readonly modelless?: boolean;
  /** It looks at a model, for which none is loaded or given up; this is what is to be seen where none is loaded. */
  readonly nothing?: (context: Context) => Response;
  /** Its body is a list, which comes as `items`. */
  readonly list?: boolean;
  /** It reads its body itself, or has none. */
  readonly raw?: boolean;
  /** Failures as the endpoint's protocol writes them, where it is not for clients of several: those write them as the client's. */
  readonly errorBody?: Context['errorBody'];
  /** It answers as a stream of events where a request has `stream`. */
  readonly stream?: StreamProtocol;
}

type How = Omit<Endpoint, 'method' | 'run'>;
const post = (run: Endpoint['run'], how: How = {}): Endpoint => ({ method: 'POST', run, ...how });
const get = (run: (context: Context) => Response | Promise<Response>, how: How = {}): Endpoint => ({
  method: 'GET',
  run,
  raw: true,
  ...how,
});

/** What a path leads to, by method. `*` at its end stands for whatever follows. llama-server answers most of OpenAI's paths without /v1 too; its /completion alone is not OpenAI's. */
function endpoints(options: HandlerOptions): ReadonlyMap<string, readonly Endpoint[]> {
  const modelless = { modelless: true };
  const open = { modelless: true, open: true };
  const paths = new Map<string, Endpoint[]>();
  const add = (path: string, ...endpoints: Endpoint[]): void => void paths.set(path, endpoints);
  const both = (path: string, ...endpoints: Endpoint[]): void => {
    add(path, ...endpoints);
    add(`/v1${path}`, ...endpoints);
  };
  both('/chat/completions', post(chatCompletions, { stream: {} }));
  both('/chat/completions/input_tokens', post(chatInputTokens));
  both('/responses', post(responses, { stream: RESPONSES_STREAM }));
  both('/responses/input_tokens', post(responseInputTokens));
  both('/completions', post(completions, { stream: {} }));
  both('/embeddings', post(embeddings));
  both('/rerank', post(rerank));
  both('/reranking', post(rerank));
  both('/models', get(modelList, modelless));
  both('/models/*', get(modelInfo, modelless));
  both(
    '/health',
    get(() => Response.json({ status: 'ok' }), open),
  );
  add('/v1/messages', post(messages, { errorBody: messagesError, stream: MESSAGES_STREAM }));
  add('/v1/messages/count_tokens', post(countMessageTokens, { errorBody: messagesError }));
  add('/completion', post(completion, { stream: {} }));
  add('/infill', post(infill, { stream: {} }));
  add('/tokenize', post(tokenize));
  add('/detokenize', post(detokenize));
  add('/apply-template', post(applyTemplate));
  add('/props', get(props, { nothing: noProps }), post(setProps, { modelless: true }));
  add('/slots', get(listSlots, { nothing: noSlots }));
  add('/slots/*', post(slotAction));
  add('/lora-adapters', get(loraAdapters, { nothing: () => Response.json([]) }), post(setLoraAdapters, { list: true }));
  add('/models/load', post(loadModel, modelless));
  add('/models/unload', post(unloadModel, modelless));
  add('/v1/files', get(listFiles, modelless), post(uploadFile, { modelless: true, raw: true }));
  add('/v1/files/*', get(batchFile, modelless), { method: 'DELETE', run: deleteFile, modelless: true, raw: true });
  add('/v1/batches', get(listBatches, modelless), post(createBatch, modelless));
  add('/v1/batches/*', get(batch, modelless), post(cancelBatch, { modelless: true, raw: true }));
  if (options.metrics !== false) add('/metrics', get(metricsText, modelless));
  const { page } = options;
  if (page !== undefined)
    add(
      '/',
      get(() => new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } }), open),
    );
  if (page?.includes('./manifest.webmanifest'))
    for (const [name, [type, body]] of Object.entries(PAGE_FILES))
      add(
        `/${name}`,
        get(() => new Response(body, { headers: { 'content-type': type } }), open),
      );
  return paths;
}

const metricsText = ({ metrics, queues }: Context): Response =>
  new Response(metrics.text(queues()), { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } });

/** What workerd's `ctx` and Vercel's have: work that must not be cut off when its request is over. */
export interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

/** What servers pass beside the request: Workers' ctx; Deno's and Bun's own objects, which mean nothing here. */
export type Beside = Partial<Lifetime> | object;

/**
 * OpenAI's HTTP interface, Anthropic's and llama-server's over a model or several, as a function from Request to Response: for Node (with an
 * adapter), Deno, Bun, workerd alike. It never rejects: whatever goes wrong is a response with an error in its protocol's shape.
 *
 * A request whose `signal` aborts, or whose stream is cancelled, stops generating. Workers cut off what a request that ended has left
 * undone, and a step that is cut off leaves the model waiting for ever: there give the handler their `ctx`.
 *
 * @param served a model, or several of which requests name one (createModels)
 * @throws QuantletError ERR_INVALID_ARGUMENT for options that make no sense
 */
export function createHandler(served: Backend | Models, given?: HandlerOptions): (request: Request, beside?: Beside) => Promise<Response> {
  const options = checkOptions('createHandler', given, HANDLER_OPTIONS);
  const keys = options.apiKey === undefined ? [] : typeof options.apiKey === 'string' ? [options.apiKey] : options.apiKey;
  if (keys.includes(''))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'apiKey is empty; expected at least one character. Leave it out to serve without a key.',
    );
  const limits = limitsOf(options);
  const apiPrefix = prefixOf(options.apiPrefix);
  const models = 'use' in served ? served : oneModel(served, options.checkModel ?? false);
  const cors = options.cors ?? false;
  const paths = endpoints(options);
  const metrics = createMetrics();
  const queues = new WeakMap<Backend, Queue>();
  const queueOf = (backend: Backend): Queue => {
    const queue = queues.get(backend) ?? createQueue(backend.parallel, limits.maxQueue);
    queues.set(backend, queue);
    return queue;
  };
  const lane = createQueue(2, Infinity);
  const states = createQueue(1, limits.maxQueue);
  const hosts = options.allowedHosts?.map((host) => host.toLowerCase());
  /** Of all requests that are not finished. */
  let buffered = 0;
  // The first text builds the tokenizer's tables, which for 100 thousand tokens and more takes a good part of a second: now, not in a request.
  for (const { backend } of models.list()) backend?.tokenize('a');
  /** What makes each request of a batch give up, so that its place or its model is free for others. */
  const giveWays = new Set<() => void>();
  /** Ends of all other requests. (A listener each at one signal would be too many for Node.) */
  const stops = new Set<() => void>();
  options.signal?.addEventListener('abort', () => stops.forEach((stop) => stop()), { once: true });

  /** @param background it is a request of a batch: it needs no key and has no limit of time, and comes after all others */
  const handle = async (request: Request, beside?: Beside, background = false): Promise<Response> => {
    const start = performance.now();
    const url = new URL(request.url);
    const path = withoutEndSlashes(url.pathname);
    const route = routeOf(path);
    const endpoint = route?.endpoints.find(({ method }) => method === (request.method === 'HEAD' ? 'GET' : request.method));
    const controller = new AbortController();
    const gone = (): void => controller.abort(new DOMException('The client closed the request.', 'AbortError'));
    const stop = (): void => controller.abort(stopping(options.signal?.reason));
    if (background) giveWays.add(gone);
    else if (options.signal?.aborted) stop();
    else stops.add(stop);
    const timer =
      limits.timeoutMs > 0 && !background
        ? setTimeout(() => controller.abort(new DOMException('The time is up.', 'TimeoutError')), limits.timeoutMs)
        : undefined;
    let finished = false;
    let bytes = 0;
    let lease: Lease | undefined;
    let over = (): void => {};
    if (beside && 'waitUntil' in beside) beside.waitUntil?.(new Promise<void>((resolve) => (over = resolve)));
    const atRest = (): void => {
      lease?.release();
      over();
    };
    const finish = (status = 200): void => {
      if (finished) return;
      finished = true;
      giveWays.delete(gone);
      stops.delete(stop);
      buffered -= bytes;
      clearTimeout(timer);
      request.signal.removeEventListener('abort', gone);
      metrics.request(route?.path ?? 'other', status);
      if (!background) options.onAccess?.({ method: request.method, path, status, ms: performance.now() - start });
    };
    const hold = (more: number): void => {
      if (finished) return;
      bytes += more;
      buffered += more;
      if (buffered > limits.maxBufferedBytes && !background)
        throw new HttpError(
          503,
          `More than ${limits.maxBufferedBytes} bytes of requests and answers are waiting already. Try again in 1 s.`,
          {
            code: 'busy',
            headers: { 'retry-after': '1' },
          },
        );
    };
    const inLane = async <T>(run: () => Promise<T>): Promise<T> => {
      const leave = bytes > LARGE ? await lane.enter(controller.signal) : undefined;
      try {
        return await run();
      } finally {
        leave?.();
      }
    };
    const work = <T>(slices: Work<T>): Promise<T> => inLane(() => inSlices(slices, controller.signal));
    const report = (error: unknown): void => {
      const { status, cause } = toHttpError(error);
      if (status >= 500 && !options.signal?.aborted) options.onError?.(cause ?? error);
    };
    /** Until a model is chosen, whoever asks for it gets nothing. */
    const chosen = (): Backend => lease!.backend;
    const context: Context = {
      options,
      request,
      limits,
      rest: route?.rest ?? '',
      query: url.searchParams,
      models,
      get backend() {
        return chosen();
      },
      get queue() {
        const queue = queueOf(chosen());
        return background ? { ...queue, enter: (signal: AbortSignal) => queue.enter(signal, gone) } : queue;
      },
      hold,
      lane: inLane,
      work,
      report,
      open: false,
      leftOut: [],
      queues: () => models.list().flatMap(({ backend }) => (backend ? [queueOf(backend)] : [])),
      states,
      metrics,
      signal: controller.signal,
      created: Math.floor(Date.now() / 1000),
      maxMessages: limits.maxMessages,
      failure: (error) => toHttpError(error, context.body),
      body: {},
      errorBody: (endpoint ?? route?.endpoints[0])?.errorBody ?? clientErrorBody(request),
      abort: (reason) => controller.abort(reason),
      finish,
      atRest,
    };

    let response: Response;
    try {
      if (request.signal.aborted) gone();
      else request.signal.addEventListener('abort', gone, { once: true });
      if (!background) checkHost(request, hosts);
      const choose = async (name: string | undefined): Promise<void> => {
        const leased = models.use(name, controller.signal);
        const wanted = models.list().find(({ id }) => id === (name ?? id));
        if (!background && wanted && !wanted.backend) for (const giveWay of giveWays) giveWay();
        lease = await leased;
      };
      const look = (name: string | undefined): boolean => (lease = models.look(name)) !== undefined;
      response = await respond(request, path, route, endpoint, background || endpoint?.open === true, context, choose, look);
    } catch (error) {
      report(error);
      response = errorResponse(context.failure(error), context.errorBody);
      context.open = false;
    }
    for (const [name, value] of Object.entries(corsHeaders(request, cors))) response.headers.set(name, value);
    if (context.leftOut.length > 0) response.headers.set('x-quantlet-left-out', context.leftOut.join(', ').slice(0, LONGEST_HEADER));
    if (!context.open) {
      finish(response.status);
      atRest();
    }
    return response;
  };

  options.batches?.start({
    ask: (path, body, signal) => handle(jsonRequest(apiPrefix + path, body, signal), undefined, true),
    parallel: () => Math.max(1, ...models.list().map(({ backend }) => backend?.parallel ?? 1)),
    onError: (error) => options.onError?.(error),
  });
  return (request, beside) => handle(request, beside);

  function routeOf(path: string): Route | undefined {
    if (!path.startsWith(apiPrefix)) return undefined;
    const own = path.slice(apiPrefix.length) || '/';
    const exact = paths.get(own);
    if (exact) return { path: own, endpoints: exact, rest: '' };
    // What stands for anything is behind the second or third slash: /slots/{id}, /v1/models/{owner/name}.
    for (let at = own.indexOf('/', 1); at > 0 && at < LONGEST; at = own.indexOf('/', at + 1)) {
      const pattern = `${own.slice(0, at)}/*`;
      const found = paths.get(pattern);
      if (found) return { path: pattern, endpoints: found, rest: decoded(own.slice(at + 1)) };
    }
    return undefined;
  }

  async function respond(
    request: Request,
    path: string,
    route: Route | undefined,
    endpoint: Endpoint | undefined,
    open: boolean,
    context: Context,
    choose: (model: string | undefined) => Promise<void>,
    look: (model: string | undefined) => boolean,
  ): Promise<Response> {
    if (request.method === 'OPTIONS' && cors !== false) return preflight(request, cors);
    if (!route) {
      const file = ['GET', 'HEAD'].includes(request.method) && path.startsWith(apiPrefix) ? await fileAt(path) : undefined;
      if (!file) throw new HttpError(404, `There is nothing at ${path}.`, { code: 'not_found' });
      if (request.method !== 'HEAD') return file;
      await file.body?.cancel();
      return new Response(null, file);
    }
    if (!endpoint) {
      const methods = route.endpoints.map(({ method }) => method).join(', ');
      throw new HttpError(405, `${path} takes ${methods}, not ${request.method}.`, {
        code: 'method_not_allowed',
        headers: { allow: methods },
      });
    }
    if (!open) checkKey(request, keys);
    const body = endpoint.raw ? {} : await readBody(request, { ...limits, hold: context.hold }, endpoint.list);
    context.body = body;
    const run = async (): Promise<Response> => {
      const name = endpoint.method === 'GET' ? (context.query.get('model') ?? undefined) : stringField(body, 'model');
      const seen = endpoint.nothing !== undefined && look(name);
      if (endpoint.nothing && !seen && name === undefined) return endpoint.nothing(context);
      if (!endpoint.modelless && !seen) await choose(name);
      return endpoint.run(context, body);
    };
    return endpoint.stream && body.stream === true ? promptly(context, pingMs(context, body), run(), endpoint.stream) : run();
  }

  async function fileAt(path: string): Promise<Response | undefined> {
    return options.files?.(decoded(path.slice(apiPrefix.length)) || '/');
  }
}

const stopping = (cause: unknown): HttpError =>
  new HttpError(503, 'The server is stopping. Try again in 1 s.', { code: 'unavailable', headers: { 'retry-after': '1' }, cause });

interface Route {
  /** The endpoint's own path, for counters. */
  readonly path: string;
  readonly endpoints: readonly Endpoint[];
  readonly rest: string;
}

/** Characters of a path, at most, before what stands for anything. */
const LONGEST = 40;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function prefixOf(prefix = ''): string {
  if (prefix === '' || /^(?:\/[\w.~-]+)+$/.test(prefix)) return prefix;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `apiPrefix is ${JSON.stringify(prefix)}; expected a path that begins with a slash and ends without one, like /api`,
  );
}
