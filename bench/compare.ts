/**
 * Compares quantlet with its peers on the same model in one run, alternating. Prints medians of
 * each, medians of the ratios within a round, and the goals.
 *
 * Usage:
 *
 *   node --import tsx bench/compare.ts [--node PATH|24] [--rounds 5] [--threads 1,2]
 *     [--peers avx2,best,wllama] [--model FILE]
 *
 * Native: llama.cpp's llama_decode alone (bench/peers/native.c), with the backend it selects on
 * this CPU and with the one for AVX2, the most that WebAssembly code can compile to. wllama runs in
 * Chromium. An interrupted run continues where it stopped. Writes
 * bench/results/<date>-<cpu>-node<major>.md, and .json with every sample.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { installPeers } from './peers/install.ts';
import { measureWllama } from './peers/wllama.ts';
import {
  benchModel,
  cache,
  cli,
  describeMachine,
  flags,
  machine,
  median,
  numbers,
  resultName,
  root,
  run,
  show,
  table,
  warnIfBusy,
  writeResult,
  type Machine,
} from './support.ts';

const options = flags('quantlet against native llama.cpp and wllama', {
  node: process.execPath,
  rounds: '5',
  threads: '1,2',
  peers: 'avx2,best,wllama',
  model: '',
  depths: '0,256,1024',
  prompt: '256',
  gen: '64',
  out: '',
  fresh: false,
});
const peers = await installPeers();
const node = options.node === '24' ? peers.node24 : options.node;
const version = (await run(node, ['-p', 'process.versions.node'])).trim();
const major = Number.parseInt(version);
const model = options.model || (await benchModel());
const rounds = Number(options.rounds);
const threads = numbers(options.threads);
const depths = numbers(options.depths);
const prompt = Number(options.prompt);
const gen = Number(options.gen);

/** `pp:256:0` and the like, as the peers expect them. */
type Test = string;
const PP: Test = `pp:${prompt}:0`;
const TG: Test = `tg:${gen}:0`;
const ALL: readonly Test[] = [PP, ...depths.map((d) => `tg:${gen}:${d}`)];
/** Small models, which show costs that do not depend on the size of a model. */
const SMALL = [
  ['the model that ships', resolve(root, 'models/tiny-stories-q4_0.gguf')],
  ['stories260K', resolve(root, '../shared/models/stories260K/stories260K.gguf')],
].filter(([, path]) => existsSync(path));

type Rates = Map<Test, number>;
interface Engine {
  readonly key: string;
  readonly tests: readonly Test[];
  measure(model: string, threads: number, tests: readonly Test[]): Promise<Rates>;
}

let systems: { [engine: string]: string } = {};

const lines = (text: string): { system?: string; test: Test; rate: number }[] =>
  text
    .trim()
    .split('\n')
    .map((l) => JSON.parse(l) as { system?: string; test: Test; rate: number });

const native = (key: string, backends: string): Engine => ({
  key,
  tests: ALL,
  async measure(file, nth, tests) {
    const [{ system = '' }, ...results] = lines(await run(peers.native, [file, backends, nth, 1, ...tests]));
    systems[key] = system
      .split('|')
      .map((s) => s.split(':').pop()!.split('=')[0].trim())
      .filter(Boolean)
      .join(' ');
    return new Map(results.map(({ test, rate }) => [test, rate]));
  },
});

const ours = (key: string, tests: readonly Test[], more: readonly string[]): Engine => ({
  key,
  tests,
  async measure(file, nth, wanted) {
    const rates: Rates = new Map();
    const kinds = wanted.map((t) => t.split(':').map(Number));
    // One process per depth. Prompts are measured at depth 0 only.
    for (const depth of new Set(kinds.map(([, , d]) => d))) {
      const here = wanted.filter((t) => Number(t.split(':')[2]) === depth);
      const of = (kind: string): string => here.find((t) => t.startsWith(kind))?.split(':')[1] ?? '0';
      const rows = JSON.parse(
        await run(node, [cli, 'bench', '-m', file, '-p', of('pp'), '-n', of('tg'), '-d', depth, '-t', nth, '-r', 1, '-o', 'json', ...more]),
      ) as { n_prompt: number; n_gen: number; avg_ts: number }[];
      for (const row of rows) rates.set(row.n_prompt ? `pp:${row.n_prompt}:${depth}` : `tg:${row.n_gen}:${depth}`, row.avg_ts);
    }
    return rates;
  },
});

const wllama: Engine = {
  key: 'wllama',
  tests: [PP, TG],
  measure: async (file, nth, tests) =>
    new Map(
      (
        await measureWllama(peers, file, {
          threads: nth,
          repetitions: 1,
          tests: tests.map((t) => t.split(':')).map(([kind, n, d]) => [kind, Number(n), Number(d)] as const),
        })
      ).map(({ test, rate }) => [test, rate]),
    ),
};

const wanted = options.peers.split(',');
const engines: readonly Engine[] = [
  ours('quantlet', ALL, []),
  ...(major >= 24 ? [ours('plain', [PP], ['--no-turbo'])] : []),
  ours('simd', [PP, TG], ['--build', 'simd-threads']),
  ...(wanted.includes('avx2') ? [native('avx2', peers.avx2)] : []),
  ...(wanted.includes('best') ? [native('best', peers.best)] : []),
  ...(wanted.includes('wllama') && peers.chromium ? [wllama] : []),
];

interface Sample {
  readonly engine: string;
  readonly model: string;
  readonly threads: number;
  readonly test: Test;
  readonly round: number;
  readonly rate: number;
}

interface Progress {
  machine: Machine;
  systems: { [engine: string]: string };
  samples: Sample[];
  round: number;
}

const here = machine(version);
warnIfBusy(here);
const partial = resolve(
  cache,
  `compare-${createHash('sha256')
    .update(JSON.stringify([options, version]))
    .digest('hex')
    .slice(0, 12)}.json`,
);
if (options.fresh) rmSync(partial, { force: true });
const HOUR = 3_600_000;
const known = existsSync(partial) ? (JSON.parse(readFileSync(partial, 'utf8')) as Progress) : undefined;
const progress: Progress =
  known && Date.now() - Date.parse(known.machine.date) < HOUR ? known : { machine: here, systems: {}, samples: [], round: 0 };
systems = progress.systems;
if (progress.round > 0) console.error(`going on with round ${progress.round + 1}`);

for (; progress.round < rounds; progress.round++) {
  for (const nth of threads) {
    // The order rotates, so that no engine always follows the same one on a hot CPU.
    const turned = engines.map((_, i) => engines[(i + progress.round) % engines.length]);
    for (const engine of turned) {
      process.stderr.write(`\rround ${progress.round + 1} of ${rounds}, ${nth} threads: ${engine.key}          `);
      for (const [test, rate] of await engine.measure(model, nth, engine.tests))
        progress.samples.push({ engine: engine.key, model: 'bench', threads: nth, test, round: progress.round, rate });
    }
  }
  for (const [name, path] of SMALL) {
    for (const engine of engines.filter((e) => ['quantlet', 'avx2', 'best'].includes(e.key))) {
      for (const [test, rate] of await engine.measure(path, 1, [TG]))
        progress.samples.push({ engine: engine.key, model: name, threads: 1, test, round: progress.round, rate });
    }
  }
  mkdirSync(cache, { recursive: true });
  writeFileSync(partial, JSON.stringify({ ...progress, round: progress.round + 1 }));
}
process.stderr.write('\n');

const { samples } = progress;
const rates = (engine: string, nth: number, test: Test, of = 'bench'): number[] =>
  samples
    .filter((s) => s.engine === engine && s.threads === nth && s.test === test && s.model === of)
    .sort((a, b) => a.round - b.round)
    .map((s) => s.rate);
/** Median of the ratios of two engines in the same round. */
const ratio = (a: readonly number[], b: readonly number[]): number => median(a.map((x, i) => x / b[i]).filter(Number.isFinite));

/**
 * Smallest ratio to native with AVX2 that is the goal, for the q4_0 model and for a given model of
 * another format. The goals for wllama follow.
 */
const leastNative = (test: Test, engine: string): number | undefined => {
  if (options.model) return engine !== 'quantlet' ? undefined : test === PP ? 0.8 : test === TG ? 1 : undefined;
  return engine === 'plain'
    ? 1.1
    : engine !== 'quantlet'
      ? undefined
      : test === PP
        ? major >= 24
          ? 1.4
          : 1
        : test === TG
          ? 1.2
          : test.endsWith(':256')
            ? 1.6
            : test.endsWith(':1024')
              ? 2.5
              : undefined;
};
const leastWllama = (test: Test, engine: string): number | undefined =>
  engine !== 'quantlet' ? undefined : test === PP ? 6 : test === TG ? 3 : undefined;

const titles: { [key: string]: string } = { quantlet: '', plain: ' with --no-turbo', simd: ', build without relaxed SIMD' };
const name = (test: Test): string => {
  const [kind, n, depth] = test.split(':');
  return kind === 'pp' ? `prompt ${n}` : `generate ${n} at depth ${depth}`;
};
const against = (a: readonly number[], b: readonly number[], least?: number): string => {
  if (a.length === 0 || b.length === 0) return '';
  const x = ratio(a, b);
  return `${x.toFixed(2)}x${least === undefined ? '' : ` ${x >= least ? '✓' : '✗'} ${least}`}`;
};

const rows = threads.flatMap((nth) =>
  engines
    .filter((e) => e.key in titles)
    .flatMap((e) =>
      e.tests.map((test) => {
        const a = rates(e.key, nth, test);
        const cell = (peer: string): string => (rates(peer, nth, test).length ? show(median(rates(peer, nth, test))) : '');
        return [
          `${name(test)}${titles[e.key]}`,
          String(nth),
          show(median(a)),
          cell('avx2'),
          cell('best'),
          cell('wllama'),
          against(a, rates('avx2', nth, test), leastNative(test, e.key)),
          against(a, rates('best', nth, test)),
          against(a, rates('wllama', nth, test), leastWllama(test, e.key)),
        ];
      }),
    ),
);

const facts: string[] = [];
const fact = (what: string, x: number, least: number): void =>
  void (Number.isFinite(x) && facts.push(`- ${what}: ${x.toFixed(2)}x ${x >= least ? '✓' : '✗'} ${least}`));
if (threads.includes(1) && threads.includes(2))
  fact('prompt with 2 threads against 1', ratio(rates('quantlet', 2, PP), rates('quantlet', 1, PP)), 1.85);
for (const nth of threads)
  for (const test of [PP, TG])
    fact(
      `the build without relaxed SIMD against the relaxed one, ${name(test)}, ${nth} threads`,
      ratio(rates('simd', nth, test), rates('quantlet', nth, test)),
      0.5,
    );
for (const [small] of SMALL) {
  const a = rates('quantlet', 1, TG, small);
  for (const peer of ['avx2', 'best'])
    fact(
      `fixed cost of a token: ${name(TG)} of ${small} against native (${peer === 'best' ? 'best backend' : 'AVX2'}), 1 thread, ${show(median(a))} and ${show(median(rates(peer, 1, TG, small)))} tokens/s`,
      ratio(a, rates(peer, 1, TG, small)),
      1,
    );
}

const report = [
  `# quantlet against its peers, Node ${version}`,
  '',
  describeMachine(progress.machine),
  '',
  `Tokens per second, median of ${rounds} alternating rounds; ratios are medians of the ratios within a round; ✓ and ✗ tell whether the goal behind them is reached. Model: ${options.model ? basename(options.model) : 'bench/make-model.ts with its defaults'}.`,
  '',
  table(['test', 'threads', 'quantlet', 'native AVX2', 'native best', 'wllama', '/ native AVX2', '/ native best', '/ wllama'], rows),
  '',
  ...facts,
  '',
  ...Object.entries(systems).map(([key, system]) => `- native ${key === 'best' ? 'best backend' : 'AVX2'} uses ${system}`),
  `- wllama 2.3.1 in Chromium, native llama.cpp v0.5.0 of node-llama-cpp 3.22.1: llama_decode alone, flash attention as it chooses by itself`,
].join('\n');
console.log(report);
const base = `${resultName(progress.machine)}${options.model ? `-${basename(options.model, '.gguf')}` : ''}`;
const folder = options.out ? resolve(options.out) : undefined;
writeResult(
  `${base}.json`,
  JSON.stringify(
    {
      machine: progress.machine,
      settings: { rounds, threads, tests: ALL, model: options.model ? basename(options.model) : 'bench/make-model.ts' },
      systems,
      samples,
    },
    null,
    1,
  ),
  folder,
);
console.error(`written: ${writeResult(`${base}.md`, report, folder)}`);
rmSync(partial, { force: true });
