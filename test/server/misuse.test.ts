/** Clients that misuse a connection: large bodies, tiny chunks, answers that are never read. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hostileServer, loadOf, measuring, send } from '../fuzz/requests.ts';
import { createHandler } from '../../src/server/handler.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { nodeListener } from '../../src/server/http/node-listener.ts';
import { scriptedBackend } from './backend.ts';
import { AFTER_SIGTERM, until, type Served } from './server.ts';

const { file, env } = measuring();
let server: Served;

beforeAll(async () => {
  // Bodies of a million chunks take long if other tests run too.
  server = await hostileServer(1, 'simd', env, ['--body-timeout', 300]);
}, 120_000);
afterAll(async () => {
  server.kill('SIGTERM');
  expect(await server.exit).toBe(AFTER_SIGTERM);
});

const open = (url = server.url): Socket => connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
const head = (path: string, length: number | 'chunked', host = 'localhost'): string =>
  `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer key\r\ncontent-type: application/json\r\n${length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`}\r\n\r\n`;
/** Collects the text that arrives until the connection ends or `enough` returns true. */
const heard = (socket: Socket, enough: (text: string) => boolean): Promise<string> =>
  new Promise((resolve) => {
    let text = '';
    socket
      .setEncoding('latin1')
      .on('data', (more: string) => {
        text += more;
        if (enough(text)) resolve(text);
      })
      .on('close', () => resolve(text));
  });

describe('a connection', () => {
  it('may bring a few requests at once, which are answered in order, and not hundreds', async () => {
    const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    const some = open();
    some.write(get('/health') + get('/nothing') + get('/health'));
    const text = await heard(some, (got) => (got.match(/HTTP\/1\.1/g) ?? []).length === 3);
    expect([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['200', '404', '200']);
    some.destroy();
    const many = open();
    many.write(get('/health').repeat(2000));
    expect(((await heard(many, () => false)).match(/HTTP\/1\.1/g) ?? []).length).toBeLessThan(100);
  });

  it('may bring a body byte by byte: as much memory as for any other, and no more', async () => {
    await loadOf(file);
    await send(server.url, { name: 'to begin with', path: '/tokenize', body: ['{"content":"x"}'] });
    const before = (await loadOf(file)).rssMiB;
    const text = `{"content":"x","blank":${' '.repeat(1_000_000)}1}`;
    const socket = open();
    socket.write(head('/tokenize', 'chunked'));
    for (let from = 0; from < text.length; from += 3000) {
      const chunks = Array.from(text.slice(from, from + 3000), (c) => `1\r\n${c}\r\n`).join('');
      if (!socket.write(chunks)) await new Promise((resolve) => socket.once('drain', resolve));
    }
    socket.write('0\r\n\r\n');
    expect(await heard(socket, (got) => got.includes('"tokens"'))).toContain('HTTP/1.1 200');
    socket.destroy();
    // One stored promise per chunk would take 630 MiB, and so long that the body would time out.
    expect((await loadOf(file)).rssMiB - before).toBeLessThan(300);
  }, 300_000);
});

describe('memory', () => {
  it('forty bodies of 9 MB at once: those that fit are answered, the others told to come again, and anybody else is served meanwhile', async () => {
    await loadOf(file);
    await send(server.url, { name: 'to begin with', path: '/tokenize', body: ['{"content":"x"}'] });
    const before = (await loadOf(file)).rssMiB;
    const body = `{"content":"x","blank":${' '.repeat(9_000_000)}1}`;
    const half = Math.floor(body.length / 2);
    const sockets = Array.from({ length: 40 }, () => open());
    const answers = sockets.map((socket) => heard(socket, (got) => /"tokens"|"busy"/.test(got)));
    for (const socket of sockets) socket.write(head('/tokenize', body.length) + body.slice(0, half));
    // All have sent half of their body: some are refused by now, none is answered.
    for (let i = 0; i < 20; i++)
      expect(
        (await send(server.url, { name: 'somebody else', path: '/v1/completions', body: ['{"prompt":"Once","max_tokens":1}'] })).status,
      ).toSatisfy((status) => status === 200 || status === 503);
    for (const socket of sockets) socket.write(body.slice(half));
    const statuses = (await Promise.all(answers)).map((text) => /HTTP\/1\.1 (\d+)/.exec(text)?.[1]);
    for (const socket of sockets) socket.destroy();
    expect(new Set(statuses)).toEqual(new Set(['200', '503']));
    // SECURITY.md: up to 4 bytes for each of the 64 MiB.
    expect((await loadOf(file)).rssMiB - before).toBeLessThan(256);
    expect(
      (await send(server.url, { name: 'afterwards', path: '/v1/completions', body: ['{"prompt":"Once","max_tokens":1}'] })).status,
    ).toBe(200);
  }, 300_000);
});

/** A server in this process, for limits without a flag. */
async function listening(
  options: HandlerOptions,
  stallMs: number,
): Promise<{ url: string; connections: () => Promise<number>; close: () => void }> {
  const listener = createServer(
    nodeListener(
      createHandler(
        scriptedBackend(() => 'x'),
        options,
      ),
      { stallMs },
    ),
  );
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    connections: () => new Promise((resolve) => listener.getConnections((_, n) => resolve(n))),
    close: () => (listener.closeAllConnections(), listener.close()),
  };
}

/** The answer to this body has about 12 MB. */
const body = JSON.stringify({ with_pieces: true, content: 'x'.repeat(500_000) });

describe('an answer that nobody reads', () => {
  it('counts until its client has gone', async () => {
    const { url, close } = await listening({ maxBufferedBytes: 20_000_000 }, 60_000);
    const sleeping = open(url).pause();
    const other = { name: 'another', path: '/tokenize', body: [body] };
    sleeping.write(head('/tokenize', body.length) + body);
    // The answer has begun. Otherwise the next request might be served and this one refused.
    await once(sleeping, 'readable');
    expect(await until(async () => (await send(url, other)).status === 503, 60_000)).toBe(true);
    sleeping.destroy();
    expect(await until(async () => (await send(url, other)).status === 200, 60_000)).toBe(true);
    close();
  }, 150_000);

  it('costs its client the connection after a while', async () => {
    const { url, connections, close } = await listening({}, 300);
    const socket = open(url).pause();
    socket.write(head('/tokenize', body.length) + body);
    expect(await until(async () => (await connections()) === 1)).toBe(true);
    expect(await until(async () => (await connections()) === 0, 30_000)).toBe(true);
    socket.destroy();
    close();
  });
});
