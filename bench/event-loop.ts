/**
 * Longest pause of the caller's event loop while a build with threads generates.
 *
 * Usage:
 *
 *   node --import tsx bench/event-loop.ts [model.gguf]
 *
 * A 1 ms timer is late by the callback that runs when it is due, so the latest timer is an upper
 * bound of the longest synchronous callback. It includes delays by the operating system, so the
 * same is measured without generating, and the median of several runs decides.
 */
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type * as Entry from '../src/entry/node.ts';
import { enableRelaxedSimd } from '../src/entry/node-platform.ts';

// The entry of dist/, because the workers of a build with threads are files there.
const { loadModel } = (await import(new URL('../dist/entry/node.js', import.meta.url).href)) as typeof Entry;

/** The promise of the architecture: no synchronous host callback takes longer. */
const LIMIT_MS = 5;
const RUNS = 7;
const RUN_MS = 700;

enableRelaxedSimd();
const file = process.argv[2] ?? fileURLToPath(new URL('../models/tiny-stories-q4_0.gguf', import.meta.url));
const model = await loadModel(file, { contextLength: 512 });
const prompt = Array.from({ length: 200 }, (_, i) => 3 + ((i * 7) % 400));

/** Milliseconds by which the latest timer was late during `work`. */
async function latest(work: (until: number) => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  await sleep(20);
  delay.enable();
  await work(performance.now() + RUN_MS);
  delay.disable();
  return delay.max / 1e6 - 1;
}

/** Prompts and generations one after another, part by part, as in a chat. */
async function generate(until: number): Promise<void> {
  while (performance.now() < until) {
    model.internals.slots.all[0].truncate(0);
    for await (const _ of model.generate(prompt, { temperature: 0.8, seed: 1, maxTokens: 64, ignoreEos: true }));
  }
}

const idle: number[] = [];
const busy: number[] = [];
await latest(generate); // the host's own code warms up
for (let i = 0; i < RUNS; i++) {
  idle.push(await latest((until) => sleep(until - performance.now())));
  busy.push(await latest(generate));
}
await model.dispose();

const median = (list: readonly number[]): number => [...list].sort((a, b) => a - b)[list.length >> 1];
const show = (list: readonly number[]): string => `${median(list).toFixed(2)} ms (${list.map((x) => x.toFixed(1)).join(', ')})`;
console.log(
  `${file.split('/').pop()}, build ${model.build}, ${model.threads} threads; the latest timer of ${RUNS} runs of ${RUN_MS} ms, median (all):`,
);
console.log(`  idle        ${show(idle)}`);
console.log(`  generating  ${show(busy)}, limit ${LIMIT_MS} ms`);
process.exitCode = median(busy) < LIMIT_MS ? 0 : 1;
