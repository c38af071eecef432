/** quantlet bench: the tests, flags, table and JSON of llama-bench. */
import { basename } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { readHParams, type HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { COMPUTE_FLAGS, forTerminal, located, openHeader, openModel, READING_FLAGS, type Command } from './command.ts';
import type { FlagKey, Values } from './flags.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { inspectToJson } from './inspect.ts';
import { progressBar } from './progress.ts';
import { refuseOtherKinds } from '../plan/file-kind.ts';

const KEYS = [
  'models',
  'hf',
  'hfFile',
  'hfToken',
  'offline',
  ...READING_FLAGS,
  'benchPrompt',
  'benchGen',
  'benchBoth',
  'benchDepth',
  'benchThreads',
  'repetitions',
  'delay',
  'batch',
  ...COMPUTE_FLAGS,
  'output',
  'turbo',
  'verbose',
  'build',
  'warmup',
  'json',
  'help',
] as const satisfies readonly FlagKey[];

interface Test {
  readonly nPrompt: number;
  readonly nGen: number;
  readonly nDepth: number;
}

/** One row of the output, by llama-bench's field names. */
interface Row {
  build: string;
  cpu_info: string;
  backends: string;
  model_filename: string;
  model_type: string;
  model_size: number;
  model_n_params: number;
  n_batch: number;
  n_ubatch: number;
  n_threads: number;
  turbo: boolean;
  type_k: string;
  type_v: string;
  n_prompt: number;
  n_gen: number;
  n_depth: number;
  test_time: string;
  avg_ns: number;
  stddev_ns: number;
  avg_ts: number;
  stddev_ts: number;
  samples_ns: number[];
  samples_ts: number[];
}

const mean = (a: readonly number[]): number => a.reduce((x, y) => x + y, 0) / a.length;
const stddev = (a: readonly number[]): number =>
  a.length < 2 ? 0 : Math.sqrt(a.reduce((s, x) => s + (x - mean(a)) ** 2, 0) / (a.length - 1));

export const bench: Command = {
  name: 'bench',
  llama: 'llama-bench',
  synopsis: '[-m FILE] [-p 512] [-n 128] [-d 0] [-t 1,2] [-r 5] [-o md|json|jsonl|csv]',
  summary: 'measure prompt and generation speed',
  flags: KEYS,
  notes:
    'Lists are separated by commas; 4-16, 4-16+4 and 4-16*2 are ranges. Several models, depths and numbers of threads are timed one after the other.',
  examples: [
    'quantlet bench -m model.gguf -p 256 -n 64 -t 1,2',
    'quantlet bench -m model.gguf -p 64-512*2 -n 0',
    'quantlet bench -m model.gguf -p 0 -n 64 -d 0,1024 -o json',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the model with -m', 'bench');
    const { output = values.json ? 'json' : 'md', repetitions = 5, delay = 0 } = values;
    const print = Object.hasOwn(PRINT, output) ? PRINT[output] : undefined;
    if (!print) throw new QuantletError('ERR_USAGE', `-o is "${output}"; expected ${Object.keys(PRINT).join(', ')}`);
    if (delay < 0) throw new QuantletError('ERR_USAGE', `--delay is ${delay}; expected 0 or more seconds`);
    if (repetitions < 1) throw new QuantletError('ERR_USAGE', `-r is ${repetitions}; expected at least 1`);
    const { models: asked = [], benchThreads: threads = [undefined], ...others } = values;
    const named = asked.flatMap((list) => list.split(','));
    const files = await inTurn(named.length > 0 ? named : [undefined], (model) =>
      located({ ...others, ...(model === undefined ? {} : { model }) }, signal),
    );
    const headers = await inTurn(files, ({ model }) => openHeader(model));
    headers.forEach(refuseOtherKinds);
    const testsOfModels = headers.map((header) => testsOf(values, readHParams(header)));
    const rows: Row[] = [];
    const bar = progressBar('measuring');
    for (const [i, [m, t]] of files.flatMap((_, m) => threads.map((t) => [m, t] as const)).entries()) {
      const [file, header, tests] = [files[m], inspectToJson(headers[m]), testsOfModels[m]];
      const model = await openModel(
        { ...file, ctx: Math.max(...tests.map((x) => x.nDepth + x.nPrompt + x.nGen)), ...(t !== undefined ? { threads: t } : {}) },
        signal,
      );
      try {
        for (const [k, test] of tests.entries()) {
          const samples: number[] = [];
          await setTimeout(1000 * delay, undefined, { signal });
          for (let r = values.warmup === false ? 0 : -1; r < repetitions; r++) {
            bar.set((i + (k + Math.max(r, 0) / repetitions) / tests.length) / (files.length * threads.length));
            const ns = await time(model, test, signal);
            if (r >= 0) samples.push(ns);
          }
          const tokens = test.nPrompt + test.nGen;
          const rates = samples.map((ns) => (tokens * 1e9) / ns);
          rows.push({
            build: model.build,
            cpu_info: `${process.arch}, ${process.release.name} ${process.versions.node}`,
            backends: 'CPU',
            model_filename: basename(file.model),
            model_type: `${header.architecture} ${majorType(header.types)}`,
            model_size: header.tensor_bytes,
            model_n_params: header.parameters,
            n_batch: model.internals.engine.batchSize,
            n_ubatch: model.internals.engine.batchSize,
            n_threads: model.threads,
            turbo: model.turbo,
            type_k: values.cacheTypeK ?? 'f16',
            type_v: values.cacheTypeV ?? 'f16',
            n_prompt: test.nPrompt,
            n_gen: test.nGen,
            n_depth: test.nDepth,
            test_time: new Date().toISOString(),
            avg_ns: Math.round(mean(samples)),
            stddev_ns: Math.round(stddev(samples)),
            avg_ts: mean(rates),
            stddev_ts: stddev(rates),
            samples_ns: samples,
            samples_ts: rates,
          });
        }
      } finally {
        bar.end();
        await model.dispose();
      }
    }
    process.stdout.write(`${forTerminal(print(rows))}\n`);
    return 0;
  },
};

async function inTurn<A, B>(all: readonly A[], work: (a: A) => Promise<B>): Promise<B[]> {
  const done: B[] = [];
  for (const one of all) done.push(await work(one));
  return done;
}

/** @throws ERR_INVALID_ARGUMENT if generation is asked of a model that does not generate text */
function testsOf(values: Values<'benchPrompt' | 'benchGen' | 'benchBoth' | 'benchDepth'>, { arch, causal }: HParams): Test[] {
  const { benchPrompt = [512], benchGen = causal ? [128] : [0], benchBoth = [], benchDepth = [0] } = values;
  const both = benchBoth.map((s) => {
    const [p, n] = s.split(',').map(Number);
    if (!Number.isInteger(p) || !Number.isInteger(n) || p < 0 || n < 0)
      throw new QuantletError('ERR_USAGE', `-pg is "${s}"; expected two whole numbers: P,N`);
    return [p, n] as const;
  });
  const pairs = [...benchPrompt.map((p) => [p, 0] as const), ...benchGen.map((n) => [0, n] as const), ...both].filter(
    ([p, n]) => p + n > 0,
  );
  if ([...benchPrompt, ...benchGen, ...benchDepth].some((n) => n < 0))
    throw new QuantletError('ERR_USAGE', 'numbers of tokens must be 0 or more');
  if (!causal && pairs.some(([, n]) => n > 0))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${arch} model makes vectors and does not generate text; give -n 0 and no -pg`);
  if (pairs.length === 0) throw new QuantletError('ERR_USAGE', 'there is nothing to measure; give -p, -n or -pg more than 0 tokens');
  return benchDepth.flatMap((nDepth) => pairs.map(([nPrompt, nGen]) => ({ nPrompt, nGen, nDepth })));
}

/** Nanoseconds of one run: decoding alone, without sampling or detokenising. */
async function time(model: Model, { nPrompt, nGen, nDepth }: Test, signal: AbortSignal): Promise<number> {
  const {
    scheduler,
    engine: { hparams },
    slots,
  } = model.internals;
  const ids = (n: number, from: number): number[] => Array.from({ length: n }, (_, i) => (3 + (from + i) * 7) % hparams.nVocab);
  const slot = await slots.acquire(signal);
  const decode = (n: number, at: number): Promise<void> => {
    slot.truncate(at);
    return scheduler.submit(slot, ids(n, at), n - 1, () => {}, signal);
  };
  // With an encoder, the prompt goes to the encoder and the text begins at position 0.
  const read = (n: number, at: number): Promise<void> => (hparams.decoder ? scheduler.encode(slot, ids(n, at), signal) : decode(n, at));
  const begin = hparams.decoder ? 0 : nDepth + nPrompt;
  try {
    // Wakes sleeping threads before the clock starts. If this is a single token, the run overwrites
    // its cell.
    await read(Math.max(nDepth, 1), 0);
    const start = process.hrtime.bigint();
    if (nPrompt > 0) await read(nPrompt, nDepth);
    for (let i = 0; i < nGen; i++) await decode(1, begin + i);
    return Number(process.hrtime.bigint() - start);
  } finally {
    slots.release(slot);
  }
}

const majorType = (types: { readonly [type: string]: number }): string =>
  Object.entries(types)
    .filter(([t]) => t !== 'f32')
    .sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'f32';

const testName = (r: Row): string =>
  `${r.n_prompt && r.n_gen ? `pp${r.n_prompt}+tg${r.n_gen}` : r.n_prompt ? `pp${r.n_prompt}` : `tg${r.n_gen}`}${r.n_depth ? ` @ d${r.n_depth}` : ''}`;

const PRINT: { readonly [format: string]: (rows: readonly Row[]) => string } = {
  json: (rows) => JSON.stringify(rows, null, 2),
  jsonl: (rows) => rows.map((r) => JSON.stringify(r)).join('\n'),
  csv: (rows) => {
    const { samples_ns: _, samples_ts: __, ...first } = rows[0];
    const names = Object.keys(first) as (keyof Row)[];
    return [names.join(','), ...rows.map((r) => names.map((n) => `"${String(r[n]).replaceAll('"', '""')}"`).join(','))].join('\n');
  },
  md: (rows) => {
    const head = ['model', 'size', 'params', 'build', 'threads', 'test', 't/s'];
    const cells = rows.map((r) => [
      r.model_type,
      `${(r.model_size / 2 ** 20).toFixed(2)} MiB`,
      `${(r.model_n_params / 1e6).toFixed(2)} M`,
      `${r.build}${r.turbo ? ' with turbo' : ''}`,
      String(r.n_threads),
      testName(r),
      `${r.avg_ts.toFixed(2)} ± ${r.stddev_ts.toFixed(2)}`,
    ]);
    const widths = head.map((h, i) => Math.max(h.length, ...cells.map((c) => c[i].length)));
    const line = (c: readonly string[]): string =>
      `| ${c.map((s, i) => (i === 0 || i === 3 ? s.padEnd(widths[i]) : s.padStart(widths[i]))).join(' | ')} |`;
    return [
      line(head),
      `| ${widths.map((w, i) => (i === 0 || i === 3 ? '-'.repeat(w) : `${'-'.repeat(w - 1)}:`)).join(' | ')} |`,
      ...cells.map(line),
    ].join('\n');
  },
};
