/** quantlet bench: llama-bench's tests, flags, table and JSON. */
import { basename } from 'node:path';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { CACHE_FLAGS, forTerminal, MODEL_FLAGS, located, openHeader, openModel, type Command } from './command.ts';
import { parseFlags, type Values } from './flags.ts';
import { inspectToJson } from './inspect.ts';
import { progressBar } from './progress.ts';

const KEYS = [...MODEL_FLAGS, 'benchPrompt', 'benchGen', 'benchBoth', 'benchDepth', 'benchThreads', 'repetitions', 'batch', ...CACHE_FLAGS, 'output', 'turbo', 'build', 'noWarmup', 'help'] as const;

interface Test {
  readonly nPrompt: number;
  readonly nGen: number;
  readonly nDepth: number;
}

/** One row of the output, with llama-bench's field names. */
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
const stddev = (a: readonly number[]): number => (a.length < 2 ? 0 : Math.sqrt(a.reduce((s, x) => s + (x - mean(a)) ** 2, 0) / (a.length - 1)));

export const bench: Command = {
  name: 'bench',
  synopsis: '[-m FILE] [-p 512] [-n 128] [-d 0] [-t 1,2] [-r 5] [-o md|json|jsonl|csv]',
  summary: 'measure prompt and generation speed',
  flags: KEYS,
  examples: ['quantlet bench -m model.gguf -p 256 -n 64 -t 1,2', 'quantlet bench -m model.gguf -p 0 -n 64 -d 0,1024 -o json'],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    if (positionals.length > 0) throw new QuantletError('ERR_USAGE', `bench takes no "${positionals[0]}"; give the model with -m`);
    const { output = 'md', repetitions = 5 } = values;
    const print = Object.hasOwn(PRINT, output) ? PRINT[output] : undefined;
    if (!print) throw new QuantletError('ERR_USAGE', `-o is "${output}"; expected ${Object.keys(PRINT).join(', ')}`);
    if (repetitions < 1) throw new QuantletError('ERR_USAGE', `-r is ${repetitions}; expected at least 1`);
    const tests = testsOf(values);
    const { benchThreads: threads = [undefined], ...file } = await located(values, signal), header = inspectToJson(await openHeader(file.model));
    const rows: Row[] = [];
    const bar = progressBar('measuring');
    for (const [i, t] of threads.entries()) {
      const model = await openModel({ ...file, ctx: Math.max(...tests.map((x) => x.nDepth + x.nPrompt + x.nGen)), ...(t !== undefined ? { threads: t } : {}) }, signal);
      try {
        for (const [k, test] of tests.entries()) {
          const samples: number[] = [];
          for (let r = values.noWarmup ? 0 : -1; r < repetitions; r++) {
            bar.set((i + (k + Math.max(r, 0) / repetitions) / tests.length) / threads.length);
            const ns = await time(model, test, signal);
            if (r >= 0) samples.push(ns);
          }
          const tokens = test.nPrompt + test.nGen, rates = samples.map((ns) => (tokens * 1e9) / ns);
          rows.push({
            build: model.build, cpu_info: `${process.arch}, ${process.release.name} ${process.versions.node}`, backends: 'CPU',
            model_filename: basename(file.model), model_type: `${header.architecture} ${majorType(header.types)}`, model_size: header.tensor_bytes, model_n_params: header.parameters,
            n_batch: model.state.engine.batchSize, n_ubatch: model.state.engine.batchSize, n_threads: model.threads, type_k: values.cacheTypeK ?? 'f16', type_v: values.cacheTypeV ?? 'f16',
            n_prompt: test.nPrompt, n_gen: test.nGen, n_depth: test.nDepth, test_time: new Date().toISOString(),
            avg_ns: Math.round(mean(samples)), stddev_ns: Math.round(stddev(samples)), avg_ts: mean(rates), stddev_ts: stddev(rates), samples_ns: samples, samples_ts: rates,
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

function testsOf({ benchPrompt = [512], benchGen = [128], benchBoth = [], benchDepth = [0] }: Values<'benchPrompt' | 'benchGen' | 'benchBoth' | 'benchDepth'>): Test[] {
  const both = benchBoth.map((s) => {
    const [p, n] = s.split(',').map(Number);
    if (!Number.isInteger(p) || !Number.isInteger(n) || p < 0 || n < 0) throw new QuantletError('ERR_USAGE', `-pg is "${s}"; expected two whole numbers: P,N`);
    return [p, n] as const;
  });
  const pairs = [...benchPrompt.map((p) => [p, 0] as const), ...benchGen.map((n) => [0, n] as const), ...both].filter(([p, n]) => p + n > 0);
  if ([...benchPrompt, ...benchGen, ...benchDepth].some((n) => n < 0)) throw new QuantletError('ERR_USAGE', 'numbers of tokens must be 0 or more');
  if (pairs.length === 0) throw new QuantletError('ERR_USAGE', 'nothing to measure: give -p, -n or -pg more than 0 tokens');
  return benchDepth.flatMap((nDepth) => pairs.map(([nPrompt, nGen]) => ({ nPrompt, nGen, nDepth })));
}

/** Nanoseconds of one run: decoding alone, no sampling, no text. */
async function time(model: Model, { nPrompt, nGen, nDepth }: Test, signal: AbortSignal): Promise<number> {
  const { scheduler, engine: { hparams }, slots } = model.state;
  const ids = (n: number, from: number): number[] => Array.from({ length: n }, (_, i) => (3 + (from + i) * 7) % hparams.nVocab);
  const slot = await scheduler.acquire(signal);
  slots[slot].tokens.length = 0;
  const decode = (n: number, at: number): Promise<void> => scheduler.submit(slot, at, ids(n, at), n - 1, () => {}, signal);
  try {
    // Threads that went home are back before the clock starts: the cell of the one token is written again.
    await decode(Math.max(nDepth, 1), 0);
    const start = process.hrtime.bigint();
    if (nPrompt > 0) await decode(nPrompt, nDepth);
    for (let i = 0; i < nGen; i++) await decode(1, nDepth + nPrompt + i);
    return Number(process.hrtime.bigint() - start);
  } finally {
    scheduler.release(slot);
  }
}

const majorType = (types: { readonly [type: string]: number }): string => Object.entries(types).filter(([t]) => t !== 'f32').sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'f32';

const testName = (r: Row): string => `${r.n_prompt && r.n_gen ? `pp${r.n_prompt}+tg${r.n_gen}` : r.n_prompt ? `pp${r.n_prompt}` : `tg${r.n_gen}`}${r.n_depth ? ` @ d${r.n_depth}` : ''}`;

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
      r.model_type, `${(r.model_size / 2 ** 20).toFixed(2)} MiB`, `${(r.model_n_params / 1e6).toFixed(2)} M`, r.build, String(r.n_threads), testName(r), `${r.avg_ts.toFixed(2)} ± ${r.stddev_ts.toFixed(2)}`,
    ]);
    const widths = head.map((h, i) => Math.max(h.length, ...cells.map((c) => c[i].length)));
    const line = (c: readonly string[]): string => `| ${c.map((s, i) => (i === 0 || i === 3 ? s.padEnd(widths[i]) : s.padStart(widths[i]))).join(' | ')} |`;
    return [line(head), `| ${widths.map((w, i) => (i === 0 || i === 3 ? '-'.repeat(w) : `${'-'.repeat(w - 1)}:`)).join(' | ')} |`, ...cells.map(line)].join('\n');
  },
};
