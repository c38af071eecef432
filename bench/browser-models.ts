/**
 * Models of several sizes or formats in Chromium, one browser each: time to load, tokens per
 * second, and memory.
 *
 * Usage:
 *
 *   node --import tsx bench/browser-models.ts MODEL.gguf... [--threads 1,2] [--rounds 3]
 *     [--prompt 128] [--gen 32] [--name NAME]
 *
 * Times are those of loadModel and generate, as a page uses them. Models come from a local server
 * and are not cached. Memory is the peak of all processes of the browser together, minus that with
 * an empty page. Writes bench/results/<NAME>-<cpu>-chromium<major>.md.
 */
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { residentBelow } from '../test/runtime/lib/resident.mjs';
import { startChromium, type Chromium, type Job } from './peers/chromium.ts';
import { installBrowserPeers } from './peers/install.ts';
import { quantletPage } from './peers/quantlet.ts';
import { describeMachine, machine, machineName, median, numbers, show, table, warnIfBusy, writeResult } from './support.ts';

const { values: options, positionals: models } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '1,2' },
    rounds: { type: 'string', default: '3' },
    prompt: { type: 'string', default: '128' },
    gen: { type: 'string', default: '32' },
    name: { type: 'string', default: 'browser-models' },
  },
});
if (models.length === 0) throw new Error('no model is named; expected MODEL.gguf...');
const tests: Job['tests'] = [
  ['pp', Number(options.prompt), 0],
  ['tg', Number(options.gen), 0],
];
/**
 * Part of the command line of every browser that playwright starts. No other one may run at the
 * same time.
 */
const BROWSER = 'playwright_chromiumdev_profile';
const LOOK_EVERY_MS = 200;

const here = machine();
warnIfBusy(here);
const peers = await installBrowserPeers();
const page = await quantletPage();
let version = '';

/** Peak memory of a browser while `work` runs in it, beyond what it had before. */
async function memoryOf<T>(work: (chromium: Chromium) => Promise<T>): Promise<{ result: T; bytes: number }> {
  const chromium = await startChromium(peers);
  ({ version } = chromium);
  const before = residentBelow(BROWSER);
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, residentBelow(BROWSER))), LOOK_EVERY_MS);
  try {
    return { result: await work(chromium), bytes: most - before };
  } finally {
    clearInterval(timer);
    await chromium.close();
  }
}

const rows: string[][] = [];
for (const model of models) {
  for (const threads of numbers(options.threads)) {
    process.stderr.write(`\r${basename(model)}, ${threads} threads      `);
    const job = { threads, repetitions: Number(options.rounds), tests };
    const { result, bytes } = await memoryOf((chromium) => chromium.measure(page, model, job));
    const rate = (name: string): number => median(result.flatMap(({ test, rate }) => (test === name ? [rate] : [])));
    rows.push([
      basename(model, '.gguf'),
      (statSync(model).size / 1e9).toFixed(2),
      String(threads),
      (1 / rate('load')).toFixed(1),
      ...tests.map((test) => show(rate(test.join(':')))),
      (bytes / 1e9).toFixed(2),
    ]);
  }
}
process.stderr.write('\n');
const report = [
  `# Models in Chromium ${version}`,
  '',
  describeMachine(here),
  '',
  `A fresh browser for each row. Loading is from a server on the same machine, nothing kept; tokens per second are medians of ${options.rounds}, sampling and text included; memory is that of all the browser's processes at most, less an empty page's.`,
  '',
  table(['model', 'file GB', 'threads', 'loading s', `prompt of ${options.prompt}`, `generate ${options.gen}`, 'memory GB'], rows),
].join('\n');
console.log(report);
console.error(`written: ${writeResult(`${options.name}-${machineName(here)}-chromium${Number.parseInt(version)}.md`, report)}`);
