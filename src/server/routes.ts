/** Endpoints by path and method. */
import { countMessageTokens, messages, MESSAGES_STREAM, messagesError } from './protocols/anthropic.ts';
import { batch, batchFile, cancelBatch, createBatch, deleteFile, listBatches, listFiles, uploadFile } from './protocols/batches.ts';
import { chatCompletions, chatInputTokens } from './protocols/chat.ts';
import { completions } from './protocols/completions.ts';
import type { Context } from './context.ts';
import type { StreamProtocol } from './http/event-stream.ts';
import type { Endpoint } from './endpoint.ts';
import { infill } from './protocols/infill.ts';
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
} from './protocols/llama-server.ts';
import type { HandlerOptions } from './options.ts';
import { PAGE_FILES } from './page-files.ts';
import { OLLAMA, OLLAMA_ENDPOINTS } from './protocols/ollama/endpoints.ts';
import { responseInputTokens, responses, RESPONSES_STREAM } from './protocols/responses.ts';
import { listSlots, noSlots, slotAction } from './protocols/slots.ts';
import { embeddings, rerank } from './protocols/vectors.ts';

/** Streams for requests with `stream`. */
const ifAsked =
  (protocol: StreamProtocol = {}): Endpoint['stream'] =>
  ({ stream }) =>
    stream === true ? protocol : undefined;

type How = Omit<Endpoint, 'method' | 'run'>;
const post = (run: Endpoint['run'], how: How = {}): Endpoint => ({ method: 'POST', run, ...how });
const get = (run: (context: Context) => Response | Promise<Response>, how: How = {}): Endpoint => ({
  method: 'GET',
  run,
  raw: true,
  ...how,
});

/**
 * Endpoints by path. `*` at the end matches any rest. Like llama-server, serves most of OpenAI's
 * paths without /v1 too. /completion (without an s) is llama-server's own.
 */
function endpoints(options: HandlerOptions): ReadonlyMap<string, readonly Endpoint[]> {
  const modelless = { modelless: true };
  const open = { modelless: true, open: true };
  const paths = new Map<string, Endpoint[]>();
  const add = (path: string, ...endpoints: Endpoint[]): void => void paths.set(path, endpoints);
  const both = (path: string, ...endpoints: Endpoint[]): void => {
    add(path, ...endpoints);
    add(`/v1${path}`, ...endpoints);
  };
  both('/chat/completions', post(chatCompletions, { stream: ifAsked() }));
  both('/chat/completions/input_tokens', post(chatInputTokens));
  both('/responses', post(responses, { stream: ifAsked(RESPONSES_STREAM) }));
  both('/responses/input_tokens', post(responseInputTokens));
  both('/completions', post(completions, { stream: ifAsked() }));
  both('/embeddings', post(embeddings));
  both('/rerank', post(rerank));
  both('/reranking', post(rerank));
  both('/models', get(modelList, modelless));
  both('/models/*', get(modelInfo, modelless));
  both(
    '/health',
    get(() => Response.json({ status: 'ok' }), open),
  );
  add('/v1/messages', post(messages, { errorBody: messagesError, stream: ifAsked(MESSAGES_STREAM) }));
  add('/v1/messages/count_tokens', post(countMessageTokens, { errorBody: messagesError }));
  add('/completion', post(completion, { stream: ifAsked() }));
  add('/infill', post(infill, { stream: ifAsked() }));
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
  for (const [path, ...endpoints] of OLLAMA_ENDPOINTS) add(path, ...endpoints.map((endpoint) => ({ ...OLLAMA, ...endpoint })));
  if (options.metrics !== false) add('/metrics', get(metricsText, modelless));
  const { page } = options;
  if (page !== undefined || !options.files) add('/', get(home, open));
  if (page?.includes('./manifest.webmanifest'))
    for (const [name, [type, body]] of Object.entries(PAGE_FILES))
      add(
        `/${name}`,
        get(() => new Response(body, { headers: { 'content-type': type } }), open),
      );
  return paths;
}

/**
 * GET /: the page for browsers, which accept HTML by name. Other clients get the words by which
 * they recognise Ollama's server.
 */
function home({ request, options: { page } }: Context): Response {
  const accept = request.headers.get('accept');
  const html = page !== undefined && (accept === null || /\btext\/html\b/i.test(accept));
  const type = html ? 'text/html' : 'text/plain';
  return new Response(html ? page : 'Ollama is running', { headers: { 'content-type': `${type}; charset=utf-8`, vary: 'accept' } });
}

const metricsText = ({ metrics, queues }: Context): Response =>
  new Response(metrics.text(queues()), { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } });

export interface Route {
  /** The endpoint's own path, for counters. */
  readonly path: string;
  readonly endpoints: readonly Endpoint[];
  readonly rest: string;
}

/** Maximum characters of a path before the part that `*` matches. */
const LONGEST = 40;

/** The decoded text of a part of a path; unchanged if its encoding is invalid. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A request's path and query, with the matching route and endpoint. */
export interface Target {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly route: Route | undefined;
  readonly endpoint: Endpoint | undefined;
}

/** The endpoints of a handler, under its prefix. */
export class Routes {
  readonly #paths: ReadonlyMap<string, readonly Endpoint[]>;
  readonly #prefix: string;

  constructor(options: HandlerOptions, prefix: string) {
    this.#paths = endpoints(options);
    this.#prefix = prefix;
  }

  targetOf({ url, method }: Request): Target {
    const { pathname, searchParams } = new URL(url);
    const path = withoutEndSlashes(pathname);
    const route = this.#find(path);
    const endpoint = route?.endpoints.find((e) => e.method === (method === 'HEAD' ? 'GET' : method));
    return { path, query: searchParams, route, endpoint };
  }

  #find(path: string): Route | undefined {
    if (!path.startsWith(this.#prefix)) return undefined;
    const own = path.slice(this.#prefix.length) || '/';
    const exact = this.#paths.get(own);
    if (exact) return { path: own, endpoints: exact, rest: '' };
    // `*` follows the second or third slash: /slots/{id}, /v1/models/{owner/name}.
    for (let at = own.indexOf('/', 1); at > 0 && at < LONGEST; at = own.indexOf('/', at + 1)) {
      const pattern = `${own.slice(0, at)}/*`;
      const found = this.#paths.get(pattern);
      if (found) return { path: pattern, endpoints: found, rest: decoded(own.slice(at + 1)) };
    }
    return undefined;
  }
}

/**
 * Removes slashes at the end of a path. Not a regular expression: on a path of many slashes, which
 * anyone may send, it takes quadratic time.
 */
function withoutEndSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end--;
  return path.slice(0, end);
}
