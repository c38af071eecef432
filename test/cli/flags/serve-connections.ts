/** Tests of the flags of serve for connections: addresses, keys, limits, paths, logs. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request, type Server } from 'node:http';
import { request as secureRequest } from 'node:https';
import { createServer, connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'vitest';
import { serve } from '../../../src/cli/serve.ts';
import { at, failure, patchedLlama, writeTo } from '../../support.ts';
import { never, type Args } from '../commands.ts';
import { post, say, complete } from './serve-requests.ts';
import { bytesOf } from '../../vision/golden.ts';
import { BASE, folder, seeing, text, served, work, without, type Effect } from './support.ts';

export function serveConnections(effect: Effect): void {
  /** Sends a request without its body, which fetch cannot do. */
  const bodyless = (url: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      let answer = '';
      socket
        .on('data', (chunk) => {
          answer += String(chunk);
          socket.end(); // the server would wait for the rest of the body
        })
        .on('close', () => resolve(answer))
        .on('error', () => resolve(answer));
      socket.write('POST /completion HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{');
    });

  effect(['host', 'port'], 'where it listens', async () => {
    const free = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => free.once('listening', resolve));
    const { port } = free.address() as AddressInfo;
    expect((await failure(() => serve.run([...BASE.serve, '--port', port].map(String), never))).message).toMatch(
      `127.0.0.1:${port}: the port is in use`,
    );
    await new Promise((resolve) => free.close(resolve));
    expect(await served(['--port', port], (url) => Promise.resolve(url))).toBe(`http://127.0.0.1:${port}`);
    // An address that RFC 5737 reserves for documentation.
    expect((await failure(() => serve.run([...BASE.serve, '--host', '203.0.113.7'].map(String), never))).message).toMatch(
      '203.0.113.7:0: this machine has no such address',
    );
  });
  effect(['apiKey', 'apiKeyFile'], 'who has none of the keys is refused', () =>
    served(['--api-key', 'a', '--api-key', 'b', '--api-key-file', writeTo(folder, 'keys', 'c\nd\n')], async (url) => {
      const status = async (key: string): Promise<number> => (await complete(url, 'a', 1, { authorization: `Bearer ${key}` })).status;
      expect(await Promise.all(['a', 'b', 'c', 'd', 'e'].map(status))).toEqual([200, 200, 200, 200, 401]);
    }),
  );
  effect(['cors'], 'pages of those origins alone; by default those of this machine', async () => {
    const asking = [
      'http://localhost:5173',
      'https://127.0.0.1',
      'http://[::1]:80',
      'http://localhost.example',
      'null',
      'https://a.example',
      'https://b.example',
    ];
    const allowed = (...args: Args): Promise<unknown[]> =>
      served(args, async (url) => {
        const answer = async (origin: string): Promise<string | null> =>
          (await fetch(`${url}/health`, { headers: { origin } })).headers.get('access-control-allow-origin');
        const answers = await Promise.all(asking.map(answer));
        return answers.flatMap((answer, i) =>
          answer === null ? [] : [answer === '*' ? '*' : asking.indexOf(answer) === i ? i : 'another'],
        );
      });
    expect(await allowed()).toEqual([0, 1, 2]);
    expect(await allowed('--cors', 'https://a.example')).toEqual([5]);
    expect(await allowed('--cors-origins', 'https://a.example, https://b.example', '--cors', 'localhost')).toEqual([0, 1, 2, 5, 6]);
    expect(await allowed('--cors', 'none')).toEqual([]);
    expect(await allowed('--cors', '*')).toEqual(['*', '*', '*', '*', '*', '*', '*']);
  });
  effect(['maxBody', 'maxText', 'maxMessages'], 'what is larger gets 413', async () => {
    const status = (args: Args, body: unknown): Promise<number> =>
      served(args, async (url) => (await post(url, '/v1/chat/completions', body)).status);
    const long = say('a'.repeat(60));
    expect(await status([], long)).toBe(200);
    expect(await status(['--max-body', 80], long)).toBe(413);
    expect(await status(['--max-text', 50], long)).toBe(413);
    expect(await status(['--max-messages', 1], { ...long, messages: [...long.messages, ...long.messages] })).toBe(413);
  });
  effect(['maxBuffered'], 'too much at once gets 503', () =>
    served(['--max-buffered', 100_000], async (url) => {
      const status = async (user: string): Promise<number> => (await post(url, '/completion', { prompt: 'a', n_predict: 1, user })).status;
      expect([await status('a'.repeat(200_000)), await status('a')]).toEqual([503, 200]);
    }),
  );
  effect(['maxQueue'], 'who would wait gets 429', () =>
    served(['-np', 1, '--max-queue', 1], async (url) => {
      const long = { prompt: 'the cat', n_predict: 200, ignore_eos: true };
      const answers = await Promise.all(Array.from({ length: 8 }, () => post(url, '/completion', long)));
      expect(new Set(answers.map((a) => a.status))).toEqual(new Set([200, 429]));
    }),
  );
  effect(['ssePingInterval'], 'so long is a stream silent', async () => {
    // 16,000 tokens take longer than a second on any machine.
    const long = writeTo(folder, 'long.gguf', await patchedLlama({ metadata: { 'llama.context_length': 16384 } }));
    const begins = (...args: Args): Promise<string> =>
      served(
        ['-m', long, '-c', 16384, ...args],
        async (url) => {
          const leaving = new AbortController();
          const { signal } = leaving;
          const body = JSON.stringify({ prompt: 'the cat '.repeat(4000), n_predict: 1, stream: true });
          const response = await fetch(`${url}/completion`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body,
            signal,
          });
          const { value } = await response.body!.getReader().read();
          leaving.abort();
          return new TextDecoder().decode(value);
        },
        without(BASE.serve, '-m'),
      );
    expect(await begins('--sse-ping-interval', 1)).toBe(':\n\n');
    expect(await begins('--sse-ping-interval', -1)).toMatch(/^data: /);
  });
  effect(['bodyTimeout', 'timeout', 'answerTimeout'], 'a request, a part of it and an answer take so long at most', async () => {
    expect(await served(['--body-timeout', 1], bodyless)).toMatch(/^HTTP\/1.1 408 [^]*did not arrive in 1000 ms/);
    expect(await served(['-to', 1], bodyless)).toMatch(/^HTTP\/1.1 408 [^]*Nothing of the body arrived for 1000 ms/);
    // Node's own limit must not come first.
    let nodesLimit = 0;
    const look = (message: unknown): void => void (nodesLimit = (message as { server: Server }).server.requestTimeout);
    subscribe('http.server.request.start', look);
    await served(['--body-timeout', 3600], async (url) => (await fetch(`${url}/health`)).status);
    unsubscribe('http.server.request.start', look);
    expect(nodesLimit).toBeGreaterThan(3_600_000);
    // 16,000 tokens take longer than a second on any machine.
    const long = writeTo(folder, 'long.gguf', await patchedLlama({ metadata: { 'llama.context_length': 16384 } }));
    const status = await served(
      ['-m', long, '-c', 16384, '--answer-timeout', 1],
      async (url) => (await post(url, '/completion', { prompt: 'a', ignore_eos: true })).status,
      without(BASE.serve, '-m'),
    );
    expect(status).toBe(504);
  });
  effect(['allowedHosts'], 'requests for another name', async () => {
    const status = (url: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        request(url, { path: '/props', headers: { host: 'name.example' } }, (response) => resolve(response.resume().statusCode))
          .on('error', reject)
          .end();
      });
    expect(await served([], status)).toBe(403);
    expect(await served(['--allowed-hosts', 'name.example'], status)).toBe(200);
  });
  effect(['accessLog'], 'a line a request', async () => {
    const log = (args: Args): Promise<string> =>
      served(args, async (url, stderr) => {
        await (await fetch(`${url}/health`)).text();
        await new Promise((resolve) => setTimeout(resolve, 20));
        return stderr();
      });
    expect(await log(['--access-log'])).toMatch(/ GET \/health 200 [\d.]+ ms\n/);
    expect(await log([])).not.toContain('/health');
  });
  effect(['noWebui'], 'no page', async () => {
    const page = async (url: string): Promise<string> => (await fetch(url, { headers: { accept: 'text/html' } })).text();
    expect(await served([], page)).toMatch(/^<!doctype html>/i);
    expect(await served(['--no-webui'], page)).toBe('Ollama is running');
  });
  const statusAt = async (url: string, path: string): Promise<number> => (await fetch(url + path)).status;
  effect(['path', 'apiPrefix'], 'files of a folder; all paths after a prefix', async () => {
    const site = join(folder, 'site');
    mkdirSync(site);
    writeTo(site, 'index.html', 'mine');
    await served(['--path', site, '--api-prefix', '/api'], async (url) => {
      expect(await (await fetch(`${url}/api/`)).text()).toBe('mine');
      expect([await statusAt(url, '/api/health'), await statusAt(url, '/health')]).toEqual([200, 404]);
    });
  });
  effect(['mediaPath', 'mediaUrl'], 'images by URLs: of a folder, of hosts, or not at all', async () => {
    const pictures = join(folder, 'pictures');
    mkdirSync(pictures);
    writeFileSync(join(pictures, 'a.png'), bytesOf('shapes.png'));
    const refusals = (args: Args): Promise<string[]> =>
      served(
        ['--mmproj', seeing.mmproj, ...args],
        async (address) => {
          const said: string[] = [];
          for (const url of ['file://a.png', 'file://b.png', 'http://localhost/a.png', 'http://b.example/a.png']) {
            const content = [{ type: 'image_url', image_url: { url } }];
            const response = await post(address, '/v1/chat/completions', { max_tokens: 1, messages: [{ role: 'user', content }] });
            said.push(response.ok ? '' : ((await response.json()) as { error: { message: string } }).error.message);
          }
          return said;
        },
        [...without(BASE.serve, '-m'), '-m', seeing.model],
      );
    const unread = /which this server does not read/;
    expect(await refusals([])).toEqual([unread, unread, unread, unread].map((text) => expect.stringMatching(text) as string));
    expect(await refusals(['--media-path', pictures, '--media-url', 'localhost,a.example'])).toEqual([
      '',
      expect.stringContaining('There is no file'),
      expect.stringContaining('no public address'),
      expect.stringContaining('may not be downloaded'),
    ]);
  });
  effect(['metrics', 'noMetrics', 'slots', 'noSlots', 'props'], 'endpoints that there are', async () => {
    const both = (args: Args): Promise<number[]> =>
      served(args, async (url) => [await statusAt(url, '/metrics'), await statusAt(url, '/slots'), (await post(url, '/props', {})).status]);
    expect(await both(['--metrics', '--slots', '--props'])).toEqual([200, 200, 200]);
    expect(await both(['--no-metrics', '--no-slots'])).toEqual([404, 501, 501]);
  });
  effect(['sslKeyFile', 'sslCertFile'], 'HTTPS', async () => {
    const file = (name: string): string => at(`test/cli/tls/${name}`);
    const args: Args = ['--ssl-key-file', file('localhost-key.pem'), '--ssl-cert-file', file('localhost.pem')];
    await served(args, async (url) => {
      expect(url).toMatch(/^https:/);
      const body = await new Promise<string>((resolve, reject) => {
        secureRequest(`${url}/health`, { ca: readFileSync(file('localhost.pem')) }, (response) =>
          response.on('data', (text) => resolve(String(text))),
        )
          .on('error', reject)
          .end();
      });
      expect(JSON.parse(body)).toEqual({ status: 'ok' });
    });
    expect((await failure(() => work(serve, args.slice(0, 2)))).message).toMatch('both --ssl-key-file and --ssl-cert-file');
    expect((await failure(() => work(serve, ['--ssl-key-file', text, '--ssl-cert-file', text]))).message).toMatch('PEM');
  });
}
