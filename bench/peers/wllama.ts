/**
 * wllama's decoding alone, as for the other peers.
 *
 * Usage:
 *
 *   node --import tsx bench/peers/wllama.ts MODEL.gguf THREADS REPETITIONS pp:256:0 tg:64:0 ...
 *
 * Prints a JSON object per measurement, as bench/peers/native.c does.
 */
import { fileURLToPath } from 'node:url';
import { startChromium, type EnginePage, type Job, type Result } from './chromium.ts';
import { installBrowserPeers, type BrowserPeers } from './install.ts';

export const wllamaPage = ({ modules }: BrowserPeers): EnginePage => ({
  folders: { '/modules/': modules },
  script: `
import { Wllama } from '/modules/@wllama/wllama/esm/index.js';
const wasm = (kind) => ({ [kind + '/wllama.wasm']: '/modules/@wllama/wllama/esm/' + kind + '/wllama.wasm' });
window.measure = async ({ threads, repetitions, tests }) => {
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
  for (const test of tests) await once(test); // until the browser has compiled what runs often for good
  const results = [];
  for (let r = 0; r < repetitions; r++) for (const test of tests) results.push({ test: test.join(':'), rate: await once(test) });
  return results;
};`,
});

export async function measureWllama(peers: BrowserPeers, model: string, job: Job): Promise<Result[]> {
  const chromium = await startChromium(peers);
  try {
    return await chromium.measure(wllamaPage(peers), model, job);
  } finally {
    await chromium.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [model, threads, repetitions, ...tests] = process.argv.slice(2);
  if (tests.length === 0) throw new Error('usage: wllama.ts MODEL.gguf THREADS REPETITIONS pp:TOKENS:DEPTH|tg:TOKENS:DEPTH ...');
  const job: Job = {
    threads: Number(threads),
    repetitions: Number(repetitions),
    tests: tests.map((t) => t.split(':')).map(([kind, tokens, depth]) => [kind, Number(tokens), Number(depth)]),
  };
  for (const result of await measureWllama(await installBrowserPeers(), model, job)) console.log(JSON.stringify(result));
}
