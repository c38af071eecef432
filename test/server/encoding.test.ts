/** Compressed request bodies: decoded within the limits for decoded bytes, or refused by name. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import { scriptedBackend } from './backend.ts';

let seen = '';
const backend = scriptedBackend((prompt) => {
  seen = prompt;
  return 'ok';
});
const maxBodyBytes = 100_000;
const handler = createHandler(backend, { maxBodyBytes, bodyTimeoutMs: 500 });
const json = JSON.stringify({ prompt: 'Grüße 🙂' });
const post = (body: BodyInit, encoding: string): Promise<Response> =>
  handler(
    new Request('http://server/v1/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': encoding },
      body,
      duplex: 'half',
    } as RequestInit),
  );
const outcome = async (response: Response): Promise<[number, string | undefined]> => [
  response.status,
  ((await response.json()) as { error?: { code: string } }).error?.code,
];
/** True if this runtime decodes the format. */
const knows = (format: string): boolean => {
  try {
    return new DecompressionStream(format as CompressionFormat) !== undefined;
  } catch {
    return false;
  }
};

describe('content-encoding', () => {
  it.each([
    ['gzip', gzipSync(json)],
    ['x-gzip', gzipSync(json)],
    ['GZIP', gzipSync(json)],
    ['deflate', deflateSync(json)],
    ['identity', Buffer.from(json)],
  ])('%s', async (encoding, body) => {
    seen = '';
    expect(await outcome(await post(body, encoding))).toEqual([200, undefined]);
    expect(seen).toBe('Grüße 🙂');
  });

  it('br is decoded, or refused with what is', async () => {
    const response = await post(brotliCompressSync(json), 'br');
    if (knows('brotli')) expect(response.status).toBe(200);
    else {
      expect(response.headers.get('accept-encoding')).toMatch(/^gzip, deflate/);
      expect(await outcome(response)).toEqual([415, 'unsupported_media_type']);
    }
  });

  it.each(['compress', 'gzip, gzip', 'aes128gcm', 'constructor'])('%s: 415', async (encoding) => {
    const response = await post(gzipSync(json), encoding);
    expect(await outcome(response)).toEqual([415, 'unsupported_media_type']);
  });

  const whole = gzipSync(json);
  it.each<[string, Uint8Array]>([
    ['JSON that is not compressed', Buffer.from(json)],
    ['a body that ends early', whole.subarray(0, whole.length - 12)],
    ['a body with a wrong checksum', Uint8Array.from(whole, (byte, i) => (i === whole.length - 8 ? byte ^ 1 : byte))],
    ['nothing', new Uint8Array()],
  ])('%s: 400', async (_, body) => {
    const [status, code] = await outcome(await post(Uint8Array.from(body), 'gzip'));
    expect([status, ['invalid_encoding', 'invalid_json'].includes(code!)]).toEqual([400, true]);
  });

  it('measures what comes out: a small body that grows is cut off, and what follows is answered', async () => {
    const bomb = gzipSync(Buffer.alloc(50 * 2 ** 20, 0x20), { level: 9 });
    expect(bomb.length).toBeLessThan(maxBodyBytes);
    expect(await outcome(await post(bomb, 'gzip'))).toEqual([413, 'body_too_large']);
    expect(await outcome(await post(whole, 'gzip'))).toEqual([200, undefined]);
  });

  it('a compressed body that stops coming: 408, and its source is cancelled', async () => {
    let cancelled = false;
    const response = await post(
      new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(whole.subarray(0, 10)),
        cancel: () => void (cancelled = true),
      }),
      'gzip',
    );
    expect(await outcome(response)).toEqual([408, 'timeout']);
    expect(cancelled).toBe(true);
  });

  it("fails in Anthropic's words at Anthropic's paths", async () => {
    const request = { method: 'POST', headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' }, body: json };
    const response = await handler(new Request('http://server/v1/messages', request));
    expect([response.status, await response.json()]).toMatchObject([400, { type: 'error', error: { type: 'invalid_request_error' } }]);
  });
});
