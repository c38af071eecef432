/**
 * Growth of cost with work: tokens per second and GMAC/s by prompt length, by tokens already in the
 * cache, and by width.
 *
 * Usage:
 *
 *   node --import tsx bench/growth.ts [--threads 2] [--repetitions 3] [--gen 32] [--out FOLDER]
 *
 * Writes bench/results/growth-<cpu>-node<major>.md.
 */
import { readFileSync } from 'node:fs';
import { inspectToJson } from '../src/cli/inspect.ts';
import { readGGUF } from '../src/gguf/read.ts';
import { toBytes } from '../src/io/source.ts';
import {
  benchModel,
  cli,
  describeMachine,
  flags,
  machine,
  machineName,
  median,
  numbers,
  run,
  show,
  table,
  warnIfBusy,
  writeResult,
} from './support.ts';

const here = machine();
const options = flags('how cost grows', {
  threads: String(Math.min(2, here.cores)),
  repetitions: '3',
  gen: '32',
  prompts: '32,64,128,256,512,1024',
  depths: '0,128,256,512,1024,2048',
  dims: '512,1024,2048',
  out: '',
});
const { threads, repetitions } = options;
const gen = Number(options.gen);
warnIfBusy(here);

interface Row {
  readonly n_prompt: number;
  readonly n_gen: number;
  readonly n_depth: number;
  readonly samples_ts: readonly number[];
}

async function bench(model: string, prompts: string, gens: string | number, depths = '0'): Promise<Row[]> {
  return JSON.parse(
    await run(process.execPath, [
      cli,
      'bench',
      '-m',
      model,
      '-p',
      prompts,
      '-n',
      gens,
      '-d',
      depths,
      '-t',
      threads,
      '-r',
      repetitions,
      '-o',
      'json',
    ]),
  ) as Row[];
}

/** Weights that a token is multiplied by: all parameters, since token_embd is the output too. */
const weightsOf = async (model: string): Promise<number> => inspectToJson(await readGGUF(toBytes(readFileSync(model)))).parameters;

/**
 * dim: width of q (head dimension x heads). For each key, attention multiplies with it twice per
 * layer (k and v).
 */
const shape = { dim: 1024, layers: 16 };
const attention = (keys: number): number => 2 * shape.layers * shape.dim * keys;

const model = await benchModel({ ctx: 4096 });
const weights = await weightsOf(model);
const step = (what: string): void => void process.stderr.write(`\r${what}          `);

step('prompts');
const prompts = (await bench(model, options.prompts, 0)).map(({ n_prompt: n, samples_ts }) => {
  const rate = median(samples_ts);
  const macs = weights + attention((n + 1) / 2);
  return [String(n), show(rate), show((n * 1000) / rate), show((rate * macs) / 1e9)];
});
step('depths');
const depths: string[][] = [];
let first = 0;
for (const depth of numbers(options.depths)) {
  const [{ samples_ts }] = await bench(model, '0', gen, String(depth));
  const rate = median(samples_ts);
  const ms = 1000 / rate;
  const keys = depth + gen / 2;
  first ||= ms;
  depths.push([
    String(depth),
    show(rate),
    ms.toFixed(3),
    depth ? ((1e6 * (ms - first)) / depth).toFixed(0) : '',
    show((rate * (weights + attention(keys))) / 1e9),
  ]);
}
step('widths');
const dims: string[][] = [];
for (const dim of numbers(options.dims)) {
  const m = await benchModel({ dim, ffn: Math.round((dim * 2.75) / 32) * 32, heads: dim / 64, kv: dim / 128, layers: 8 });
  const n = await weightsOf(m);
  const rows = await bench(m, '256', gen);
  const rate = (prompt: boolean): number => median(rows.find((r) => r.n_prompt > 0 === prompt)!.samples_ts);
  dims.push([String(dim), show(n / 1e6), show(rate(true)), show((rate(true) * n) / 1e9), show(rate(false)), show((rate(false) * n) / 1e9)]);
}
step('');

const report = [
  `# How cost grows, Node ${here.node}, ${threads} threads`,
  '',
  describeMachine(here),
  '',
  `Medians of ${repetitions} repetitions; q4_0. GMAC/s counts the weights, and above the last table attention too: where it stays, cost grows as the work does.`,
  '',
  '## Length of the prompt (dim 1024, 16 layers)',
  '',
  table(['tokens', 'tokens/s', 'ms', 'GMAC/s'], prompts),
  '',
  `## Tokens in the cache while ${gen} are generated (the same model)`,
  '',
  table(['n_kv', 'tokens/s', 'ms a token', 'ns more for each key', 'GMAC/s'], depths),
  '',
  '## Width (8 layers, heads of 64)',
  '',
  table(['dim', 'M weights', 'prompt 256, tokens/s', 'GMAC/s', `generate ${gen}, tokens/s`, 'GMAC/s'], dims),
].join('\n');
console.log(report);
console.error(
  `written: ${writeResult(`growth-${machineName(here)}-node${Number.parseInt(here.node)}.md`, report, options.out || undefined)}`,
);
