/**
 * Generation with only part of the weights in memory, compared with the limits set by reading and
 * computing.
 *
 * Usage:
 *
 *   node --import tsx bench/streaming.ts [--model FILE] [--share 0.4] [--threads 2] [--tokens 4]
 *     [--rounds 3] [--warm]
 *
 * --share: fraction of the weights that stays in memory. A token reads the rest; two threads read
 * while the others compute. The limit is the lower of two speeds: that of two threads which read as
 * many bytes of the file, in the same pieces, into used memory; and that of the model with all
 * weights in memory. Both are measured alternately with the streaming model. Fails below 0.7 of the
 * limit.
 *
 * The file is dropped from the page cache before every token and every reading (dd, on Linux),
 * because a streamed model is usually larger than it. With --warm it stays there. Then reading is a
 * copy by the computing cores, and the limit is the speed of doing one after the other.
 */
import { execFileSync } from 'node:child_process';
import { Worker } from 'node:worker_threads';
import { loadModel, type Model } from '../src/entry/node.ts';
import { benchModel, flags, machine, median, show, table, warnIfBusy } from './support.ts';

const GOAL = 0.7;
const READERS = 2;
/** As in load/read-weights.ts. */
const PIECE_BYTES = 256 << 10;

const here = machine();
const options = flags('generation with weights that are read for every token', {
  model: '',
  share: '0.4',
  threads: String(Math.min(2, here.cores)),
  tokens: '4',
  rounds: '3',
  warm: false,
});
warnIfBusy(here);
const path = options.model || (await benchModel({ dim: 2048, layers: 32, ffn: 5632, heads: 32, kv: 8 }));
const threads = Number(options.threads);
const tokens = Number(options.tokens);

const evict = (): void => void (options.warm || execFileSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' }));

const reader = `
const { parentPort, workerData } = require('node:worker_threads');
const { openSync, readSync } = require('node:fs');
const { path, ith, readers, piece } = workerData;
const fd = openSync(path);
const into = new Uint8Array(new SharedArrayBuffer(64 << 20)).fill(1);
parentPort.on('message', (bytes) => {
  for (let at = ith * piece; at < bytes; at += readers * piece) readSync(fd, into, at % into.length, Math.min(piece, bytes - at), at);
  parentPort.postMessage(0);
});`;

/** Milliseconds that the readers take for this many bytes of the file. */
async function reading(workers: readonly Worker[], bytes: number): Promise<number> {
  evict();
  const start = performance.now();
  await Promise.all(workers.map((worker) => new Promise((resolve) => void (worker.once('message', resolve), worker.postMessage(bytes)))));
  return performance.now() - start;
}

/** Milliseconds per token. The first one is left out, because it includes the prompt. */
async function generating(model: Model): Promise<number> {
  const tokenTimes: number[] = [];
  const parts = model.generate([1], { maxTokens: tokens + 1, temperature: 0, ignoreEos: true })[Symbol.asyncIterator]();
  for (;;) {
    evict();
    const start = performance.now();
    if ((await parts.next()).done) break;
    tokenTimes.push(performance.now() - start);
  }
  return median(tokenTimes.slice(1));
}

const common = { threads, contextLength: 256, warmUp: false } as const;
const whole = await loadModel(path, common);
const all = whole.stats.memory.weights;
const times = { compute: [] as number[], read: [] as number[], stream: [] as number[] };
const rounds = Number(options.rounds);
for (let i = 0; i < rounds; i++) times.compute.push(await generating(whole));
await whole.dispose();

const streaming = await loadModel(path, { ...common, weightsMemory: Math.floor(all * Number(options.share)) });
const streams = new Set(streaming.internals.engine.passes.flatMap((pass) => pass.streams ?? []));
const bytes = [...streams].flatMap(({ weights }) => weights).reduce((sum, [{ byteLength }]) => sum + byteLength, 0);
const workers = Array.from(
  { length: READERS },
  (_, ith) => new Worker(reader, { eval: true, workerData: { path, ith, readers: READERS, piece: PIECE_BYTES } }),
);
await reading(workers, bytes);
for (let i = 0; i < rounds; i++) {
  times.read.push(await reading(workers, bytes));
  times.stream.push(await generating(streaming));
}
await streaming.dispose();
await Promise.all(workers.map((worker) => worker.terminate()));

const roof = options.warm ? median(times.read) + median(times.compute) : Math.max(median(times.read), median(times.compute));
const reached = roof / median(times.stream);
const mb = (n: number): string => (n / 1e6).toFixed(0);
console.log(
  table(
    [`${mb(all)} MB of weights, ${threads} threads`, 'ms a token', 'all'],
    (
      [
        ['computing with all of them in memory', times.compute],
        [`reading the ${mb(bytes)} MB that do not stay`, times.read],
        [`generating with ${mb(streaming.stats.memory.weights)} MB in memory`, times.stream],
      ] as const
    ).map(([what, ms]) => [what, show(median(ms)), ms.map((t) => t.toFixed(0)).join(' ')]),
  ),
);
console.log(`${reached.toFixed(2)} of the roof, ${(1000 / median(times.stream)).toFixed(2)} tokens a second; at least ${GOAL}`);
process.exitCode = reached < GOAL ? 1 : 0;
