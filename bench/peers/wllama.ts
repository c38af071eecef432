/**
 * wllama in headless Chromium on a cross-origin isolated page of this process's own server: decoding alone, as for the other peers.
 *
 *   node --import tsx bench/peers/wllama.ts MODEL.gguf THREADS REPETITIONS pp:256:0 tg:64:0 ...
 *
 * One JSON object a measurement, as bench/peers/native.c prints them.
 */
import { createReadStream, statSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPeers, type Peers } from './install.ts';

/** The little of playwright-core that is used; it is installed beside the peers, not with the package. */
interface Playwright {
  readonly chromium: {
    launch(options: { executablePath: string; args: string[] }): Promise<{
      newPage(): Promise<{ goto(url: string): Promise<unknown>; waitForFunction(expression: string): Promise<unknown>; evaluate<A, R>(code: string | ((argument: A) => R), argument?: A): Promise<Awaited<R>>; on(event: 'pageerror', listener: (e: Error) => void): void }>;
      close(): Promise<void>;
    }>;
  };
}

interface Job {
  readonly threads: number;
  readonly repetitions: number;
  /** Kind, tokens, depth. */
  readonly tests: readonly (readonly [kind: string, tokens: number, depth: number])[];
}

const PAGE = `<!doctype html><script type="module">
import { Wllama } from '/modules/@wllama/wllama/esm/index.js';
const wasm = (kind) => ({ [kind + '/wllama.wasm']: '/modules/@wllama/wllama/esm/' + kind + '/wllama.wasm' });
window.measure = async ({ threads, repetitions, tests }) => {
  if (!crossOriginIsolated) throw new Error('the page is not cross-origin isolated: no threads');
  const wllama = new Wllama({ ...wasm('single-thread'), ...wasm('multi-thread') }, { suppressNativeLog: true });
  const file = await (await fetch('/model')).blob();
  const context = Math.max(...tests.map(([, tokens, depth]) => tokens + depth)) + 16;
  await wllama.loadModel([file], { n_threads: threads, n_ctx: context, n_batch: 512 });
  const ids = (n, from) => Array.from({ length: n }, (_, i) => (3 + (from + i) * 7) % 500);
  const once = async ([kind, tokens, depth]) => {
    await wllama.kvClear();
    for (let i = 0; i < depth; i += 512) await wllama.decode(ids(Math.min(512, depth - i), i), {});
    const start = performance.now();
    if (kind === 'pp') await wllama.decode(ids(tokens, depth), {});
    else for (let i = 0; i < tokens; i++) await wllama.decode(ids(1, depth + i), {});
    return tokens * 1000 / (performance.now() - start);
  };
  await once(['pp', 16, 0]);
  await once(['tg', 4, 0]);
  const results = [];
  for (let r = 0; r < repetitions; r++) for (const test of tests) results.push({ test: test.join(':'), rate: await once(test) });
  return results;
};
</script>`;

const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'same-origin' };
const TYPES: { readonly [ending: string]: string } = { js: 'text/javascript', wasm: 'application/wasm' };

export async function measureWllama(peers: Peers, model: string, job: Job): Promise<{ test: string; rate: number }[]> {
  if (!peers.chromium) throw new Error('there is no Chromium: apt-get install chromium, or set CHROMIUM to its path');
  const { chromium } = createRequire(resolve(peers.modules, 'x.js'))('playwright-core') as Playwright;
  const send = (response: ServerResponse, path: string): void => {
    const { size } = statSync(path);
    response.writeHead(200, { ...ISOLATED, 'content-type': TYPES[path.split('.').pop()!] ?? 'application/octet-stream', 'content-length': size });
    createReadStream(path).pipe(response);
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://localhost').pathname;
    if (url === '/') return void response.writeHead(200, { ...ISOLATED, 'content-type': 'text/html' }).end(PAGE);
    const path = url === '/model' ? resolve(model) : resolve(peers.modules, `.${url.replace('/modules', '')}`);
    try {
      if (url !== '/model' && !path.startsWith(peers.modules + sep)) throw new Error('outside');
      send(response, path);
    } catch {
      response.writeHead(404, ISOLATED).end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const quiet = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions'];
  const browser = await chromium.launch({ executablePath: peers.chromium, args: quiet });
  try {
    const page = await browser.newPage();
    page.on('pageerror', (e) => console.error(`wllama: ${e.message}`));
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await page.waitForFunction('window.measure !== undefined');
    return await page.evaluate((j: Job) => (globalThis as unknown as { measure(job: Job): Promise<{ test: string; rate: number }[]> }).measure(j), job);
  } finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [model, threads, repetitions, ...tests] = process.argv.slice(2);
  if (tests.length === 0) throw new Error('usage: wllama.ts MODEL.gguf THREADS REPETITIONS pp:TOKENS:DEPTH|tg:TOKENS:DEPTH ...');
  const job: Job = { threads: Number(threads), repetitions: Number(repetitions), tests: tests.map((t) => t.split(':')).map(([kind, tokens, depth]) => [kind, Number(tokens), Number(depth)]) };
  for (const result of await measureWllama(await installPeers(), model, job)) console.log(JSON.stringify(result));
}
