/**
 * Many clients of one server for minutes: some read slowly, some hang up. No answer may be lost or
 * mixed with another, memory stays bounded, and the event loop is never blocked for long.
 *
 * Usage:
 *
 *   node --import tsx bench/server-soak.ts [--minutes 5] [--clients 200] [--parallel 8]
 *     [--threads N] [--model FILE]
 *
 * The server runs in a process of its own. Two times of its main thread are reported: how late a 1
 * ms timer was (other processes may have had the core), and the processor time between two turns of
 * the timer, which bounds every synchronous callback. (A turn handles all pending events: hundreds
 * of callbacks if 200 clients connect at once.) Turns over 5 ms are listed with their garbage
 * collection.
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type * as Node from '../src/entry/node.ts';
import type * as OpenAI from '../src/entry/openai.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    clients: { type: 'string', default: '200' },
    parallel: { type: 'string', default: '8' },
    threads: { type: 'string' },
    model: { type: 'string', default: fileURLToPath(new URL('../models/tiny-stories-q4_0.gguf', import.meta.url)) },
    server: { type: 'boolean', default: false },
  },
});

interface Report {
  rssMiB: number;
  loopDelayMs: { p50: number; p99: number; max: number };
  cpuBetweenTurnsMs: { p99: number; max: number };
  long: { ms: number; gcMs: number }[];
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Processor time of this process's main thread in ms on Linux; elsewhere wall time. */
function cpuMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}

async function runServer(): Promise<void> {
  const dist = new URL('../dist/entry', import.meta.url).href;
  const { createHandler, nodeListener } = (await import(`${dist}openai.js`)) as typeof OpenAI;
  const quantlet = (await import(`${dist}node.js`)) as typeof Node;
  const model = await quantlet.loadModel(values.model, {
    parallel: Number(values.parallel),
    ...(values.threads ? { threads: Number(values.threads) } : {}),
  });
  const handler = createHandler(model, { maxQueue: 10_000, onError: (e) => console.error(e) });
  const server = createServer(nodeListener(handler)).listen(0, '127.0.0.1', () =>
    process.send!({ port: (server.address() as AddressInfo).port }),
  );
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let turns: number[] = [];
  let before = cpuMs();
  let from = performance.now();
  const long: { ms: number; from: number; to: number }[] = [];
  const collections: PerformanceEntry[] = [];
  new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] });
  setInterval(() => {
    const now = cpuMs();
    const to = performance.now();
    turns.push(now - before);
    if (now - before > 5) long.push({ ms: now - before, from, to });
    [before, from] = [now, to];
  }, 1);
  process.on('message', () => {
    const sorted = turns.sort((a, b) => a - b);
    turns = [];
    const ms = (ns: number): number => ns / 1e6 - 1;
    const report: Report = {
      rssMiB: process.memoryUsage.rss() / 2 ** 20,
      loopDelayMs: { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) },
      long: long.splice(0).map(({ ms, from, to }) => ({
        ms,
        gcMs: collections.filter((c) => c.startTime < to && c.startTime + c.duration > from).reduce((sum, c) => sum + c.duration, 0),
      })),
      cpuBetweenTurnsMs: { p99: sorted[Math.floor(sorted.length * 0.99)] ?? 0, max: sorted.at(-1) ?? 0 },
    };
    delay.reset();
    collections.length = 0;
    before = cpuMs();
    process.send!(report);
  });
}

const PROMPTS = [
  'Once upon a time',
  'Lily and Tom',
  'The little bird',
  'Max had a red ball',
  'One day, a girl',
  'Ben was sad',
  'The sun was hot',
  'Sue saw a big box',
];
const MAX_TOKENS = 48;

async function runClients(): Promise<void> {
  const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--server'], { execArgv: process.execArgv });
  const message = <T>(): Promise<T> => new Promise((resolve) => child.once('message', (m) => resolve(m as T)));
  const report = (): Promise<Report> => (child.send(0), message<Report>());
  const url = `http://127.0.0.1:${(await message<{ port: number }>()).port}/v1/completions`;
  const body = (prompt: string, stream: boolean): string =>
    JSON.stringify({ prompt, stream, temperature: 0, max_tokens: MAX_TOKENS, ignore_eos: true });
  const ask = (prompt: string, stream: boolean, signal?: AbortSignal): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: body(prompt, stream),
      ...(signal ? { signal } : {}),
    });
  const whole = async (response: Response): Promise<string> => ((await response.json()) as { choices: { text: string }[] }).choices[0].text;

  const expected = new Map<string, string>();
  for (const prompt of PROMPTS) expected.set(prompt, await whole(await ask(prompt, false)));
  const counts = { whole: 0, streamed: 0, slow: 0, 'hung up': 0 };
  const wrong: string[] = [];
  const until = Date.now() + Number(values.minutes) * 60_000;

  /** Reads events. `msBetween` makes a slow reader, `most` one that hangs up. */
  async function stream(prompt: string, msBetween: number, most: number): Promise<'done' | 'left'> {
    const leaving = new AbortController();
    const response = await ask(prompt, true, leaving.signal);
    if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
    const reader = response.body!.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array<ArrayBuffer>, string>).getReader();
    let held = '';
    let text = '';
    let events = 0;
    let ended = false;
    const want = expected.get(prompt)!;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (held + value).split('\n\n');
      held = lines.pop()!;
      for (const line of lines) {
        if (line === 'data: [DONE]') ended = true;
        else text += (JSON.parse(line.slice(6)) as { choices: { text: string }[] }).choices[0].text;
        events++;
      }
      if (!want.startsWith(text)) throw new Error(`mixed: "${text}" is no beginning of "${want}"`);
      if (events >= most && !ended) {
        leaving.abort();
        return 'left';
      }
      if (msBetween > 0) await pause(msBetween);
    }
    if (!ended || text !== want) throw new Error(`lost: "${text}" of "${want}", ${ended ? 'with' : 'without'} [DONE]`);
    return 'done';
  }

  async function client(index: number): Promise<void> {
    for (let round = index; Date.now() < until; round += 7) {
      const prompt = PROMPTS[round % PROMPTS.length];
      const kind = round % 4;
      try {
        if (kind === 0) {
          if ((await whole(await ask(prompt, false))) !== expected.get(prompt)) throw new Error('mixed: another answer than alone');
          counts.whole++;
        } else if (kind === 1) {
          await stream(prompt, 0, Infinity);
          counts.streamed++;
        } else if (kind === 2) {
          await stream(prompt, 20 + (round % 5) * 20, Infinity);
          counts.slow++;
        } else {
          const left =
            Math.random() < 0.3
              ? ask(prompt, false, AbortSignal.timeout(Math.floor(Math.random() * 200))).then(
                  () => 'done',
                  () => 'left',
                )
              : stream(prompt, 0, 1 + (round % 20));
          if ((await left) === 'left') counts['hung up']++;
        }
      } catch (error) {
        wrong.push(`client ${index}, round ${round}, kind ${kind}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }

  const reports: Report[] = [];
  let over = false;
  const clients = Promise.all(Array.from({ length: Number(values.clients) }, (_, i) => client(i))).then(() => (over = true));
  await report(); // resets the counters after loading
  while (!over) {
    await Promise.race([clients, pause(10_000)]);
    const r = await report();
    reports.push(r);
    console.log(
      `${JSON.stringify(counts)} wrong ${wrong.length}, rss ${r.rssMiB.toFixed(0)} MiB, timer late by ${r.loopDelayMs.p50.toFixed(1)} (p50) ${r.loopDelayMs.p99.toFixed(1)} (p99) ${r.loopDelayMs.max.toFixed(1)} ms (max), processor time between turns ${r.cpuBetweenTurnsMs.p99.toFixed(2)} (p99) ${r.cpuBetweenTurnsMs.max.toFixed(2)} ms (max)${r.long.map(({ ms, gcMs }) => `; ${ms.toFixed(1)} ms, collecting ${gcMs.toFixed(1)}`).join('')}`,
    );
  }
  child.kill();
  const rss = reports.map((r) => r.rssMiB);
  const longest = Math.max(...reports.map((r) => r.cpuBetweenTurnsMs.max));
  // In the first reports, caches and the optimiser still grow.
  const grown = rss.at(-1)! - rss[Math.floor(rss.length / 4)];
  console.log(
    JSON.stringify({
      minutes: Number(values.minutes),
      clients: Number(values.clients),
      ...counts,
      wrong: wrong.length,
      rssMiB: { first: rss[0], last: rss.at(-1), most: Math.max(...rss), grownSinceFirstQuarter: grown },
      longestTurnCpuMs: longest,
      turnsOver5Ms: reports.map((r) => r.long.length),
      turnsOver5MsWithoutCollection: reports.map((r) => r.long.filter(({ gcMs }) => gcMs === 0).length),
      timerLateMaxMs: Math.max(...reports.map((r) => r.loopDelayMs.max)),
    }),
  );
  for (const line of wrong.slice(0, 20)) console.log(line);
  process.exitCode = wrong.length > 0 || grown > 64 ? 1 : 0;
}

await (values.server ? runServer() : runClients());
