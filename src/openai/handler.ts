/** createHandler: requests to their endpoints, with limits, keys, CORS and the access log. */
import { QuantletError } from '../errors.ts';
import type { Backend } from './backend.ts';
import { chatCompletions } from './chat.ts';
import { completions } from './completions.ts';
import type { Context } from './context.ts';
import { stringField, type Body } from './fields.ts';
import { errorResponse, HttpError, toHttpError } from './http-error.ts';
import { countCharacters } from './json-body.ts';
import { createMetrics } from './metrics.ts';
import { applyTemplate, completion, detokenize, modelList, props, tokenize } from './native.ts';
import { createQueue } from './queue.ts';
import { checkHost, checkKey, corsHeaders, preflight, readBody, type Buffered } from './request.ts';
import { embeddings, rerank } from './vectors.ts';

export interface HandlerOptions {
  /** Keys that clients must send as a bearer token; none: everyone may. */
  apiKey?: string | readonly string[];
  /** Origins whose pages may read answers; true: all. Default false. */
  cors?: boolean | readonly string[];
  /** Hosts (names or addresses, without a port) that requests may be for; others get 403. Default: any. For servers that only this machine reaches: LOOPBACK_HOSTS. */
  allowedHosts?: readonly string[];
  /** Read the text of control tokens (`<|im_end|>`) in messages as those tokens, as llama-server does. Default false: they stay text. */
  parseSpecial?: boolean;
  /** Bytes of a request body at most. Default 10 MiB. */
  maxBodyBytes?: number;
  /** Bytes of the bodies of all requests together that are not yet answered; more get 503. Default 64 MiB. */
  maxBufferedBytes?: number;
  /** Characters of a request's texts together (messages, tools, prompts, schemas); more get 413. Default 2^20. */
  maxTextChars?: number;
  /** Messages of a conversation; more get 413. Default 4096. */
  maxMessages?: number;
  /** Milliseconds for a request body to arrive. Default 30 s. Timers end at 2^31 - 1 (25 days): more means that, here and below. */
  bodyTimeoutMs?: number;
  /** Milliseconds for an answer, waiting included; 0 for no limit. Default 10 min. */
  timeoutMs?: number;
  /** Requests that wait for a place at most; more get 429. Default 64. */
  maxQueue?: number;
  /** Refuse (404) requests that name another model. Default false: one model is served, whatever its name. */
  checkModel?: boolean;
  /** An HTML page to serve at /. */
  page?: string;
  /** Called once per request, when its answer is complete or given up. */
  onAccess?: (access: Access) => void;
  /** Called with failures of the server itself (status 500 and above), which clients are told little about. */
  onError?: (error: unknown) => void;
}

/** A line of the access log. */
export interface Access {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly ms: number;
}

/** A regular expression would look for the end from every slash: a path of slashes alone, which anyone may send, took a time quadratic in its length. */
function withoutEndSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end--;
  return path.slice(0, end);
}

/** The longest time that setTimeout takes: anything above ends at once. */
const MOST_MS = 2 ** 31 - 1;

type Endpoint =
  | { readonly method: 'GET'; readonly open?: boolean; readonly run: (context: Context) => Response }
  | { readonly method: 'POST'; readonly run: (context: Context, body: Body) => Response | Promise<Response> };

const post = (run: (context: Context, body: Body) => Response | Promise<Response>): Endpoint => ({ method: 'POST', run });
const get = (run: (context: Context) => Response, open = false): Endpoint => ({ method: 'GET', open, run });

/** llama-server answers most of OpenAI's paths without /v1 too; its /completion alone is not OpenAI's. */
function endpoints(options: HandlerOptions): ReadonlyMap<string, Endpoint> {
  const health = get(() => Response.json({ status: 'ok' }), true);
  const models = get((context) => Response.json(modelList(context)));
  const named = {
    chat: post(chatCompletions),
    completions: post(completions),
    embeddings: post(embeddings),
    rerank: post(rerank),
  };
  const paths: Record<string, Endpoint> = {
    '/v1/chat/completions': named.chat,
    '/chat/completions': named.chat,
    '/v1/completions': named.completions,
    '/completions': named.completions,
    '/completion': post(completion),
    '/v1/embeddings': named.embeddings,
    '/embeddings': named.embeddings,
    '/v1/rerank': named.rerank,
    '/v1/reranking': named.rerank,
    '/rerank': named.rerank,
    '/reranking': named.rerank,
    '/v1/models': models,
    '/models': models,
    '/tokenize': post(tokenize),
    '/detokenize': post(detokenize),
    '/apply-template': post(applyTemplate),
    '/props': get(props),
    '/health': health,
    '/v1/health': health,
    '/metrics': get(({ metrics, queue }) => new Response(metrics.text(queue), { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } })),
  };
  const { page } = options;
  if (page !== undefined) paths['/'] = get(() => new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } }), true);
  return new Map(Object.entries(paths));
}

/** What workerd's `ctx` and Vercel's have: work that must not be cut off when its request is over. */
export interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

/** What servers pass beside the request: Workers' ctx; Deno's and Bun's own objects, which mean nothing here. */
type Beside = Partial<Lifetime> | object;

/**
 * OpenAI's HTTP interface and llama-server's over one model, as a function from Request to Response: for Node (with an
 * adapter), Deno, Bun, workerd alike. It never rejects: whatever goes wrong is a response with an OpenAI-shaped error.
 *
 * A request whose `signal` aborts, or whose stream is cancelled, stops generating. Workers cut off what a request that ended has left
 * undone, and a step that is cut off leaves the model waiting for ever: there give the handler their `ctx`.
 *
 * @throws QuantletError ERR_INVALID_ARGUMENT for options that make no sense
 */
export function createHandler(backend: Backend, options: HandlerOptions = {}): (request: Request, beside?: Beside) => Promise<Response> {
  const keys = options.apiKey === undefined ? [] : typeof options.apiKey === 'string' ? [options.apiKey] : options.apiKey;
  if (keys.includes('')) throw new QuantletError('ERR_INVALID_ARGUMENT', 'apiKey is empty; expected at least one character. Leave it out to serve without a key.');
  const limits = { maxBodyBytes: 10 * 2 ** 20, maxBufferedBytes: 64 * 2 ** 20, maxTextChars: 2 ** 20, maxMessages: 4096, bodyTimeoutMs: 30_000, timeoutMs: 600_000, maxQueue: 64 };
  for (const name of Object.keys(limits) as (keyof typeof limits)[]) {
    const value = options[name] ?? limits[name];
    if (!Number.isInteger(value) || value < 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${value}; expected a whole number from 0 on.`);
    limits[name] = name.endsWith('Ms') ? Math.min(value, MOST_MS) : value;
  }
  const cors = options.cors ?? false;
  const paths = endpoints(options);
  const metrics = createMetrics();
  const queue = createQueue(backend.parallel, limits.maxQueue);
  const hosts = options.allowedHosts?.map((host) => host.toLowerCase());
  const buffered: Buffered = { bytes: 0, most: limits.maxBufferedBytes };
  // The first text builds the tokenizer's tables, which for 100 thousand tokens and more takes a good part of a second: now, not in a request.
  backend.tokenize('a');

  return async (request, beside) => {
    const start = performance.now();
    const path = withoutEndSlashes(new URL(request.url).pathname);
    const endpoint = paths.get(path);
    const controller = new AbortController();
    const gone = (): void => controller.abort(new DOMException('The client closed the request.', 'AbortError'));
    const timer = limits.timeoutMs > 0 ? setTimeout(() => controller.abort(new DOMException('The time is up.', 'TimeoutError')), limits.timeoutMs) : undefined;
    let finished = false, bytes = 0, rest = (): void => {};
    if (beside && 'waitUntil' in beside) beside.waitUntil?.(new Promise<void>((resolve) => (rest = resolve)));
    const finish = (status = 200): void => {
      if (finished) return;
      finished = true;
      buffered.bytes -= bytes;
      clearTimeout(timer);
      request.signal.removeEventListener('abort', gone);
      metrics.request(endpoint ? path : 'other', status);
      options.onAccess?.({ method: request.method, path, status, ms: performance.now() - start });
    };
    const context: Context = { backend, queue, metrics, signal: controller.signal, created: Math.floor(Date.now() / 1000), parseSpecial: options.parseSpecial ?? false, abort: (reason) => controller.abort(reason), finish, rest: () => rest() };

    let response: Response;
    try {
      if (request.signal.aborted) gone();
      else request.signal.addEventListener('abort', gone, { once: true });
      response = await respond(request, path, endpoint, context, (more) => {
        if (finished) buffered.bytes -= more;
        else bytes += more;
      });
    } catch (error) {
      const failure = toHttpError(error);
      if (failure.status >= 500) options.onError?.(failure.cause ?? error);
      response = errorResponse(failure);
    }
    for (const [name, value] of Object.entries(corsHeaders(request, cors))) response.headers.set(name, value);
    // A stream finishes when it ends; everything else is complete here.
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      finish(response.status);
      rest();
    }
    return response;
  };

  async function respond(request: Request, path: string, endpoint: Endpoint | undefined, context: Context, onBytes: (bytes: number) => void): Promise<Response> {
    checkHost(request, hosts);
    if (request.method === 'OPTIONS' && cors !== false) return preflight(request, cors);
    if (!endpoint) throw new HttpError(404, `There is nothing at ${path}.`, { code: 'not_found' });
    const { method } = endpoint;
    const given = request.method === 'HEAD' ? 'GET' : request.method;
    if (given !== method) throw new HttpError(405, `${path} takes ${method}, not ${request.method}.`, { code: 'method_not_allowed', headers: { allow: method } });
    if (endpoint.method === 'GET') {
      if (!endpoint.open) checkKey(request, keys);
      return endpoint.run(context);
    }
    checkKey(request, keys);
    const body = await readBody(request, { ...limits, buffered, onBytes });
    const { messages } = body;
    if (Array.isArray(messages) && messages.length > limits.maxMessages) throw new HttpError(413, `'messages' has ${messages.length} messages; expected at most ${limits.maxMessages}. Leave out the oldest.`, { param: 'messages', code: 'too_many_messages' });
    const characters = countCharacters(body);
    if (characters > limits.maxTextChars) throw new HttpError(413, `The texts of the request have ${characters} characters; expected at most ${limits.maxTextChars}. Send less, or in several requests.`, { code: 'text_too_large' });
    const model = stringField(body, 'model');
    if (options.checkModel && model !== undefined && model !== backend.name) {
      throw new HttpError(404, `The model '${model}' does not exist here; expected '${backend.name}'.`, { param: 'model', code: 'model_not_found' });
    }
    return endpoint.run(context, body);
  }
}
