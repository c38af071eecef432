/** Request handling before the endpoint: body, key, CORS. */
import { exactJson, parseExactJson } from '../../chat/exact-json.ts';
import { isRecord } from '../../chat/json.ts';
import { ownTurn } from '../../slices.ts';
import type { Body } from '../protocols/fields.ts';
import { HttpError } from './http-error.ts';
import { imageChars } from './body-images.ts';
import { BYTES_OF_ELEMENT, createJsonGauge, tooMuchText } from './json-body.ts';

type Cors = boolean | readonly string[];

export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxTextChars: number;
  readonly bodyTimeoutMs: number;
  /**
   * Called with the bytes that the request takes, in small amounts.
   * @throws HttpError 503 if all requests together take too many
   */
  readonly hold: (bytes: number) => void;
}

/**
 * Bytes that are checked and decoded at once. A larger body is parsed in its own turn of the event
 * loop.
 */
const BLOCK = 64 * 1024;
/** Milliseconds after which a body in many small chunks yields to other tasks. */
const SLICE_MS = 2;

/** Browsers mark requests of pages: posts by Origin, all by Sec-Fetch-Site. */
const isOfPage = ({ headers }: Request): boolean => headers.has('origin') || headers.has('sec-fetch-site');

/**
 * Reads a JSON object (or a list, as `items`) within the limits. A compressed body is measured
 * after decompression.
 * @throws HttpError 400, 408, 413, 415 if a page sends it without a JSON content-type, 503 if too
 * many bytes are waiting
 */
export async function readBody(
  request: Request,
  { maxBodyBytes: limit, maxTextChars, bodyTimeoutMs: timeoutMs, hold }: BodyLimits,
  list = false,
): Promise<Body> {
  // Pages of any origin may post forms and plain text to a server on this machine; for JSON the
  // browser sends a CORS preflight first. Programs often send no type or, like curl, a form's type,
  // so only pages are checked.
  const type = request.headers.get('content-type');
  if (isOfPage(request) && !/^application\/(?:[\w.+-]*\+)?json\s*(?:;|$)/i.test(type ?? ''))
    throw new HttpError(
      415,
      `The content-type of the body is ${type === null ? 'missing' : JSON.stringify(type.slice(0, 80))}; expected "content-type: application/json".`,
      { code: 'unsupported_media_type' },
    );
  const tooLarge = (): HttpError => new HttpError(413, `The body is larger than ${limit} bytes. Send less.`, { code: 'body_too_large' });
  const declared = Number(request.headers.get('content-length'));
  if (declared > limit) throw tooLarge();
  const body = decodedBody(request);
  if (!body) throw new HttpError(400, 'The request has no body; expected a JSON object.', { code: 'invalid_json' });
  const reader = body.getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const gauge = createJsonGauge(maxTextChars);
  const texts: string[] = [];
  const block = new Uint8Array(declared > 0 ? Math.min(declared, BLOCK) : BLOCK);
  let size = 0;
  let used = 0;
  let cost = 0;
  let late = false;
  const flush = (): void => {
    const part = block.subarray(0, used);
    const before = cost;
    cost = gauge(part);
    hold((cost - before) * BYTES_OF_ELEMENT);
    texts.push(decode(decoder, part));
    used = 0;
  };
  // One timer instead of Promise.race for every read: each race would retain memory per chunk until
  // the end, and chunks may have one byte.
  const timer = setTimeout(() => {
    late = true;
    void reader.cancel().catch(() => undefined);
  }, timeoutMs);
  try {
    for (let began = performance.now(); ;) {
      const { done, value } = await reader.read().catch(undecoded(request));
      if (late) throw new HttpError(408, `The body did not arrive in ${timeoutMs} ms.`, { code: 'timeout' });
      if (done) break;
      size += value.byteLength;
      if (size > limit) throw tooLarge();
      hold(value.byteLength);
      for (let at = 0; at < value.byteLength;) {
        const length = Math.min(block.length - used, value.byteLength - at);
        block.set(value.subarray(at, at + length), used);
        used += length;
        at += length;
        if (used === block.length) flush();
        if (performance.now() - began < SLICE_MS) continue;
        await ownTurn();
        began = performance.now();
      }
    }
    flush();
    texts.push(decode(decoder));
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
  if (size > BLOCK) await ownTurn();
  let value: unknown;
  try {
    value = parseExactJson(texts.join(''));
  } catch (error) {
    throw notJson(error);
  }
  if (list && Array.isArray(value)) value = { items: value };
  if (!isRecord(value))
    throw new HttpError(400, `The body is JSON, but not ${list ? 'a list' : 'an object'}; expected ${list ? 'a list' : 'an object'}.`, {
      code: 'invalid_json',
    });
  const { text, images } = gauge.characters();
  if (images > 0 && text + images - imageChars(value) > maxTextChars) throw tooMuchText(maxTextChars);
  // The checks that follow visit every element again.
  if (size > BLOCK) await ownTurn();
  return value;
}

/**
 * Names of `content-encoding` to names of the Compression Streams standard. Some runtimes lack the
 * last two.
 */
const ENCODINGS: Readonly<Record<string, string>> = { gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate', br: 'brotli', zstd: 'zstd' };

/** Creates a decompression stream; undefined if the runtime does not support the encoding. */
function decoderOf(encoding: string): DecompressionStream | undefined {
  const format = Object.hasOwn(ENCODINGS, encoding) ? ENCODINGS[encoding] : undefined;
  try {
    return format === undefined ? undefined : new DecompressionStream(format as CompressionFormat);
  } catch {
    return undefined;
  }
}

/**
 * The request's body, decompressed while it is read.
 * @throws HttpError 415 for an unsupported encoding
 */
export function decodedBody(request: Request): ReadableStream<Uint8Array> | null {
  const given = request.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (given === '' || given === 'identity') return request.body;
  const decoder = decoderOf(given);
  if (!decoder) {
    const known = Object.keys(ENCODINGS).filter((name) => name !== 'x-gzip' && decoderOf(name));
    throw new HttpError(415, `The content-encoding is ${JSON.stringify(given.slice(0, 80))}; expected ${known.join(', ')} or none.`, {
      code: 'unsupported_media_type',
      headers: { 'accept-encoding': known.join(', ') },
    });
  }
  return request.body?.pipeThrough(decoder as ReadableWritablePair<Uint8Array, Uint8Array>) ?? null;
}

/** Converts a failure to read a body: if the body is compressed, it is invalid. */
export const undecoded =
  ({ headers }: Request) =>
  (error: unknown): never => {
    const encoding = headers.get('content-encoding');
    if (encoding === null) throw error;
    throw new HttpError(400, `The body does not have its content-encoding (${encoding.slice(0, 80)}).`, {
      code: 'invalid_encoding',
      cause: error,
    });
  };

const notJson = (error: unknown): HttpError =>
  new HttpError(400, `The body is not JSON: ${error instanceof Error ? error.message : 'cannot be read'}.`, {
    code: 'invalid_json',
    cause: error,
  });

/** Decodes the characters completed by these bytes; without bytes, ends the text. */
function decode(decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
  } catch (error) {
    throw notJson(error);
  }
}

/** A request that posts JSON to a path, as from a program. */
export const jsonRequest = (path: string, body: object, signal: AbortSignal): Request =>
  new Request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: exactJson(body),
    signal,
  });

/** Loopback names of a machine. */
export const LOOPBACK_HOSTS: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Checks the Host header against DNS rebinding: a page of another origin can make its own name
 * resolve to this machine. Then its requests have the server's origin, and only the Host differs.
 * @throws HttpError 403 for a Host that is not in `allowed`
 */
export function checkHost(request: Request, allowed: readonly string[] | undefined): void {
  if (allowed === undefined) return;
  const given = request.headers.get('host') ?? new URL(request.url).host;
  const name = given.replace(/:\d{1,5}$/, '').toLowerCase();
  if (!allowed.includes(name))
    throw new HttpError(
      403,
      `The host ${JSON.stringify(given.slice(0, 80))} is not served here; expected one of ${allowed.join(', ')}. Allow it with allowedHosts (--allowed-hosts).`,
      { code: 'host_not_allowed' },
    );
}

/**
 * Compares two secrets. The time depends only on the length of `given`, not on the first
 * difference.
 */
export function sameSecret(given: string, secret: string): boolean {
  const encoder = new TextEncoder();
  const a = encoder.encode(given);
  const b = encoder.encode(secret);
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i] ^ b[i % Math.max(1, b.length)];
  return difference === 0;
}

/** The request's key, from a bearer token or x-api-key; '' if absent. */
export const givenKey = ({ headers }: Request): string =>
  /^Bearer\s+(.*)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? headers.get('x-api-key') ?? '';

/** @throws HttpError 401 without a valid key as a bearer token (or x-api-key) */
export function checkKey(request: Request, keys: readonly string[]): void {
  if (keys.length === 0) return;
  const given = givenKey(request);
  let known = false;
  // Compares with every key, so that the time does not reveal which one was close.
  for (const key of keys) known = sameSecret(given, key) || known;
  if (!known)
    throw new HttpError(401, 'The API key is missing or wrong. Send it as "Authorization: Bearer KEY".', {
      code: 'invalid_api_key',
      headers: { 'www-authenticate': 'Bearer' },
    });
}

/** Tells if an origin is on this machine, at any port. */
const isLocal = (origin: string): boolean => URL.canParse(origin) && LOOPBACK_HOSTS.includes(new URL(origin).hostname);

/**
 * Tells if pages of this origin may read answers. `allowed` true allows every origin; `localhost`
 * in the list allows every origin of this machine.
 */
export const allowsOrigin = (origin: string, allowed: Cors): boolean =>
  allowed === true || (allowed !== false && (allowed.includes(origin) || (allowed.includes('localhost') && isLocal(origin))));

/** CORS headers for this request's origin. */
export function corsHeaders(request: Request, allowed: Cors): Record<string, string> {
  const origin = request.headers.get('origin');
  if (allowed === false || origin === null) return {};
  if (!allowsOrigin(origin, allowed)) return { vary: 'origin' };
  return {
    'access-control-allow-origin': allowed === true ? '*' : origin,
    vary: 'origin',
    'access-control-expose-headers': 'retry-after, x-quantlet-left-out',
  };
}

/** Maximum characters of the header list in a preflight request. */
const MAX_ASKED = 2000;

export function preflight(request: Request, allowed: Cors): Response {
  // Allows all requested headers. The official clients send many of their own, and none has an
  // effect here.
  const asked = request.headers.get('access-control-request-headers') ?? '';
  return new Response(null, {
    status: 204,
    headers: {
      ...corsHeaders(request, allowed),
      'access-control-allow-methods': 'GET, POST, DELETE, OPTIONS',
      'access-control-allow-headers': asked !== '' && asked.length <= MAX_ASKED ? asked : 'authorization, content-type, x-api-key',
      'access-control-max-age': '86400',
    },
  });
}
