/** A request before its endpoint: body, key, CORS. */
import { HttpError } from './http-error.ts';
import { isRecord } from '../chat/json.ts';
import type { Body } from './fields.ts';

/** Reads a JSON object of at most `limit` bytes, without keeping more than that. @throws HttpError 400, 408, 413 */
export async function readBody(request: Request, limit: number, timeoutMs: number): Promise<Body> {
  const tooLarge = (): HttpError => new HttpError(413, `The body is larger than ${limit} bytes. Send less.`, { code: 'body_too_large' });
  if (Number(request.headers.get('content-length')) > limit) throw tooLarge();
  if (!request.body) throw new HttpError(400, 'The request has no body; expected a JSON object.', { code: 'invalid_json' });
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new HttpError(408, `The body did not arrive in ${timeoutMs} ms.`, { code: 'timeout' })), timeoutMs);
  });
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) break;
      size += value.byteLength;
      if (size > limit) throw tooLarge();
      chunks.push(value);
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
  return parseBody(chunks, size);
}

function parseBody(chunks: readonly Uint8Array[], size: number): Body {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new HttpError(400, `The body is not JSON: ${error instanceof Error ? error.message : 'cannot be read'}.`, { code: 'invalid_json', cause: error });
  }
  if (!isRecord(value)) throw new HttpError(400, 'The body is JSON, but no object; expected an object.', { code: 'invalid_json' });
  return value;
}

/** Are they equal? The time depends on the length of `given` alone, not on where they differ. */
export function sameSecret(given: string, secret: string): boolean {
  const encoder = new TextEncoder();
  const a = encoder.encode(given);
  const b = encoder.encode(secret);
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i] ^ b[i % Math.max(1, b.length)];
  return difference === 0;
}

/** @throws HttpError 401 without one of the keys as a bearer token (or x-api-key) */
export function checkKey(request: Request, keys: readonly string[]): void {
  if (keys.length === 0) return;
  const given = /^Bearer\s+(.*)$/i.exec(request.headers.get('authorization') ?? '')?.[1] ?? request.headers.get('x-api-key') ?? '';
  let known = false;
  // Every key is compared, so that the time does not say which one was close.
  for (const key of keys) known = sameSecret(given, key) || known;
  if (!known) throw new HttpError(401, 'The API key is missing or wrong. Send it as "Authorization: Bearer KEY".', { code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } });
}

/** Headers of cross-origin answers for this request's origin; `allowed` is true for every origin. */
export function corsHeaders(request: Request, allowed: boolean | readonly string[]): Record<string, string> {
  const origin = request.headers.get('origin');
  if (allowed === false || origin === null) return {};
  if (allowed !== true && !allowed.includes(origin)) return { vary: 'origin' };
  return { 'access-control-allow-origin': allowed === true ? '*' : origin, vary: 'origin', 'access-control-expose-headers': 'retry-after' };
}

export function preflight(request: Request, allowed: boolean | readonly string[]): Response {
  return new Response(null, {
    status: 204,
    headers: { ...corsHeaders(request, allowed), 'access-control-allow-methods': 'GET, POST, OPTIONS', 'access-control-allow-headers': 'authorization, content-type, x-api-key', 'access-control-max-age': '86400' },
  });
}
