/** createHandler: dispatches requests to endpoints, with limits, keys, CORS and the access log. */
import { QuantletError } from '../errors.ts';
import { checkOptions } from '../options.ts';
import type { Backend } from './backend.ts';
import { pingMs, promptly } from './http/event-stream.ts';
import { Exchange, Server, type Beside } from './exchange.ts';
import { stringField, type Body } from './protocols/fields.ts';
import { HttpError } from './http/http-error.ts';
import type { Models } from './models.ts';
import { HANDLER_OPTIONS, type HandlerOptions } from './options.ts';
import { checkHost, checkKey, corsHeaders, jsonRequest, preflight, readBody } from './http/request.ts';
import type { Endpoint } from './endpoint.ts';
import { decoded, Routes, type Target } from './routes.ts';

export type { Beside, Lifetime } from './exchange.ts';

/**
 * Creates a function from Request to Response that serves OpenAI's, Anthropic's, Ollama's and
 * llama-server's protocols. It works in Node (with an adapter), Deno, Bun and workerd. It never rejects: every
 * failure is a response with an error in its protocol's format.
 *
 * A request stops generating if its `signal` aborts or its stream is cancelled. Workers cut off
 * work that continues after a response, and an interrupted step would block the model forever. So
 * on Workers, pass their `ctx` to the handler.
 *
 * @param served a model, or several that requests select by name (createModels)
 * @throws QuantletError ERR_INVALID_ARGUMENT for invalid options
 */
export function createHandler(served: Backend | Models, given?: HandlerOptions): (request: Request, beside?: Beside) => Promise<Response> {
  const options = checkOptions('createHandler', given, HANDLER_OPTIONS);
  const keys = keysOf(options);
  const apiPrefix = prefixOf(options.apiPrefix);
  const server = new Server(served, options);
  const routes = new Routes(options, apiPrefix);
  const hosts = options.allowedHosts?.map((host) => host.toLowerCase());
  const cors = options.cors ?? false;

  /** @param background true for a request of a batch, which needs no key */
  const handle = async (request: Request, beside?: Beside, background = false): Promise<Response> => {
    const target = routes.targetOf(request);
    const exchange = new Exchange(server, request, target, background, beside);
    let response: Response;
    try {
      if (!background) checkHost(request, hosts);
      if (request.method === 'OPTIONS' && cors !== false) response = preflight(request, cors);
      else if (!target.route) response = await fileAt(request, target.path);
      else {
        const endpoint = endpointOf(target, request.method);
        if (!background && endpoint.open !== true) checkKey(request, keys);
        response = await answer(exchange, endpoint);
      }
    } catch (error) {
      response = exchange.fail(error);
    }
    return exchange.respond(response, corsHeaders(request, cors));
  };

  /**
   * A response with one of the server's own files.
   * @throws HttpError 404
   */
  async function fileAt({ method }: Request, path: string): Promise<Response> {
    const isRead = ['GET', 'HEAD'].includes(method) && path.startsWith(apiPrefix);
    const file = isRead ? await options.files?.(decoded(path.slice(apiPrefix.length)) || '/') : undefined;
    if (!file) throw new HttpError(404, `There is nothing at ${path}.`, { code: 'not_found' });
    if (method !== 'HEAD') return file;
    await file.body?.cancel();
    return new Response(null, file);
  }

  const { models } = server;
  options.batches?.start({
    ask: (path, body, signal) => handle(jsonRequest(apiPrefix + path, body, signal), undefined, true),
    parallel: () => Math.max(1, ...models.list().map(({ backend }) => backend?.parallel ?? 1)),
    onError: (error) => options.onError?.(error),
  });
  return (request, beside) => handle(request, beside);
}

/**
 * The endpoint for a method.
 * @throws HttpError 405
 */
function endpointOf({ path, route, endpoint }: Target, method: string): Endpoint {
  if (endpoint) return endpoint;
  const methods = route!.endpoints.map((e) => e.method).join(', ');
  throw new HttpError(405, `${path} takes ${methods}, not ${method}.`, { code: 'method_not_allowed', headers: { allow: methods } });
}

/**
 * Reads the body, chooses the model and runs the endpoint. A stream may start before its model is
 * loaded.
 */
async function answer(exchange: Exchange, endpoint: Endpoint): Promise<Response> {
  const { request, limits, hold } = exchange;
  const body = endpoint.raw ? {} : await readBody(request, { ...limits, hold }, endpoint.list);
  exchange.body = body;
  const run = async (): Promise<Response> => {
    const name = endpoint.modelless
      ? undefined
      : endpoint.method === 'GET'
        ? (exchange.query.get('model') ?? undefined)
        : (endpoint.model ?? modelField)(body);
    const seen = endpoint.nothing !== undefined && exchange.look(name);
    if (endpoint.nothing && !seen && name === undefined) return endpoint.nothing(exchange);
    if (!endpoint.modelless && !seen) await exchange.choose(name);
    return endpoint.run(exchange, body);
  };
  const stream = endpoint.stream?.(body);
  return stream ? promptly(exchange, pingMs(exchange, body), run(), stream) : run();
}

const modelField = (body: Body): string | undefined => stringField(body, 'model');

/** @throws QuantletError ERR_INVALID_ARGUMENT */
function keysOf({ apiKey }: HandlerOptions): readonly string[] {
  const keys = apiKey === undefined ? [] : typeof apiKey === 'string' ? [apiKey] : apiKey;
  if (keys.includes(''))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'apiKey is empty; expected at least one character. Leave it out to serve without a key.',
    );
  return keys;
}

function prefixOf(prefix = ''): string {
  if (prefix === '' || /^(?:\/[\w.~-]+)+$/.test(prefix)) return prefix;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `apiPrefix is ${JSON.stringify(prefix)}; expected a path that begins with a slash and ends without one, like /api`,
  );
}
