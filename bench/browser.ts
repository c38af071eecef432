/**
 * Compares quantlet with wllama in the same Chromium, on the same model and with equal threads,
 * alternating. Prints medians of each, medians of the ratios within a round, and the goals.
 *
 * Usage:
 *
 *   node --import tsx bench/browser.ts [--rounds 5] [--threads 1,2] [--prompt 256] [--gen 64]
 *     [--model FILE]
 *
 * The figures of quantlet include sampling and text: it is timed through loadModel and generate, as
 * a page uses it. Those of wllama are of decoding alone. Writes
 * bench/results/<date>-<cpu>-chromium<major>.md, and .json with every sample.
 */
import { resolve } from 'node:path';
import { startChromium, type Job } from './peers/chromium.ts';
import { installBrowserPeers } from './peers/install.ts';
import { quantletPage } from './peers/quantlet.ts';
import { wllamaPage } from './peers/wllama.ts';
import {
  benchModel,
  describeMachine,
  flags,
  machine,
  machineName,
  median,
  numbers,
  show,
  table,
  warnIfBusy,
  writeResult,
} from './support.ts';

const options = flags('quantlet against wllama in Chromium', { rounds: '5', threads: '1,2', prompt: '256', gen: '64', model: '', out: '' });
const rounds = Number(options.rounds);
const prompt = Number(options.prompt);
const gen = Number(options.gen);
const PP = `pp:${prompt}:0`;
const TG = `tg:${gen}:0`;
/** Smallest ratios that are the goal. */
const LEAST: { readonly [test: string]: number } = { [PP]: 5, [TG]: 3 };
const TESTS: Job['tests'] = [
  ['pp', prompt, 0],
  ['tg', gen, 0],
];

const peers = await installBrowserPeers();
const model = options.model || (await benchModel());
const here = machine();
warnIfBusy(here);
const chromium = await startChromium(peers);
const engines = [
  ['quantlet', await quantletPage()],
  ['wllama', wllamaPage(peers)],
] as const;
const samples: { engine: string; threads: number; test: string; round: number; rate: number }[] = [];
try {
  for (let round = 0; round < rounds; round++) {
    for (const threads of numbers(options.threads)) {
      // The order alternates, so that neither engine always follows the other on a hot CPU.
      for (const [engine, page] of round % 2 ? [...engines].reverse() : engines) {
        process.stderr.write(`\rround ${round + 1} of ${rounds}, ${threads} threads: ${engine}      `);
        for (const { test, rate } of await chromium.measure(page, model, { threads, repetitions: 1, tests: TESTS }))
          if (test !== 'load') samples.push({ engine, threads, test, round, rate });
      }
    }
  }
} finally {
  await chromium.close();
}
process.stderr.write('\n');

const rates = (engine: string, threads: number, test: string): number[] =>
  samples.filter((s) => s.engine === engine && s.threads === threads && s.test === test).map((s) => s.rate);
const rows = numbers(options.threads).flatMap((threads) =>
  [PP, TG].map((test) => {
    const [a, b] = engines.map(([engine]) => rates(engine, threads, test));
    const ratio = median(a.map((x, i) => x / b[i]));
    return [
      test === PP ? `prompt of ${prompt}` : `generate ${gen}`,
      String(threads),
      show(median(a)),
      show(median(b)),
      `${ratio.toFixed(2)}x ${ratio >= LEAST[test] ? '✓' : '✗'} ${LEAST[test]}`,
    ];
  }),
);
const report = [
  `# quantlet against wllama 2.3.1 in Chromium ${chromium.version}`,
  '',
  describeMachine(here),
  '',
  `Tokens per second, median of ${rounds} alternating rounds, a fresh page of the same browser each; the ratio is the median of the ratios within a round, ✓ and ✗ tell whether the goal behind it is reached. quantlet with sampling and text, wllama's decoding alone. Model: ${options.model ? options.model.split('/').pop() : 'bench/make-model.ts with its defaults (189 M parameters, q4_0)'}.`,
  '',
  table(['test', 'threads', 'quantlet', 'wllama', 'quantlet / wllama'], rows),
].join('\n');
console.log(report);
const name = `${here.date.slice(0, 10)}-${machineName(here)}-chromium${Number.parseInt(chromium.version)}`;
const out = options.out ? resolve(options.out) : undefined;
writeResult(
  `${name}.json`,
  JSON.stringify(
    {
      machine: here,
      chromium: chromium.version,
      wllama: '2.3.1',
      settings: { rounds, prompt, gen, model: options.model ? 'given' : 'bench/make-model.ts' },
      samples,
    },
    null,
    1,
  ),
  out,
);
console.error(`written: ${writeResult(`${name}.md`, report, out)}`);
