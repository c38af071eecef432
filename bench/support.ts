/**
 * Shared by the benches: flags, medians, a description of the machine, the model to measure, child
 * processes that print JSON, result files.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, freemem, loadavg, totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { modelName, writeBenchModel, type Shape } from './make-model.ts';
import { TILE_ROWS } from '../src/graph/layout.ts';

export const root = fileURLToPath(new URL('../', import.meta.url));
export const cache = resolve(root, '.cache');
export const cli = resolve(root, 'dist/cli.js');

/** The last line that a quantlet command prints. */
export const said = (...args: string[]): string =>
  execFileSync(process.execPath, [cli, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    .trim()
    .split('\n')
    .at(-1)!;

/**
 * Quality and speed of a model: nats per token of a text, the ids of a greedy story of 200 tokens,
 * tokens per second.
 */
export interface Judged {
  readonly nll: number;
  readonly ids: readonly number[];
  readonly speed: number;
}

/** @param more flags of the model, for all three commands */
export function judged(path: string, text: string, ctx: number, more: readonly string[] = []): Judged {
  const json = (command: string, ...args: string[]): unknown => JSON.parse(said(command, '-m', path, ...more, ...args));
  const { nll } = json('perplexity', '-f', text, '-c', String(ctx), '-ctk', 'f32', '-ctv', 'f32', '--json') as { nll: number };
  const { ids } = json('run', '-p', 'Once upon a time', '-n', '200', '--temp', '0', '--ignore-eos', '--json') as { ids: number[] };
  const { avg_ts: speed } = json('bench', '-p', '0', '-n', '64', '-r', '5', '-o', 'jsonl') as { avg_ts: number };
  return { nll, ids, speed };
}

/** Columns of a model in a table, relative to one that leaves nothing out. */
export const JUDGED = ['NLL', 'more', 'same ids', 'tokens/s'] as const;
export function against({ nll, ids, speed }: Judged, whole: Judged): string[] {
  const same = ids.findIndex((id, i) => id !== whole.ids[i]);
  return [nll.toFixed(4), (nll - whole.nll).toFixed(4), same < 0 ? `all ${ids.length}` : `${same}`, speed.toFixed(0)];
}

/** Rows of a product that a thread takes at a time. */
export const CHUNK_ROWS = TILE_ROWS.large;

/** Parses `--name value` flags. Every flag has a default; `--help` prints them. */
export function flags<T extends { readonly [name: string]: string | boolean }>(
  about: string,
  defaults: T,
): { [K in keyof T]: T[K] extends boolean ? boolean : string } {
  const options = Object.fromEntries(
    Object.entries({ ...defaults, help: false }).map(([name, value]) => [
      name,
      typeof value === 'boolean' ? { type: 'boolean' as const } : { type: 'string' as const },
    ]),
  );
  const { values } = parseArgs({ options });
  if (values.help) {
    console.log(
      `${about}\n\n${Object.entries(defaults)
        .map(([name, value]) => `  --${name}${typeof value === 'boolean' ? '' : ` (${value || 'none'})`}`)
        .join('\n')}`,
    );
    process.exit(0);
  }
  return { ...defaults, ...values } as { [K in keyof T]: T[K] extends boolean ? boolean : string };
}

export const numbers = (list: string): number[] => list.split(',').filter(Boolean).map(Number);

/** The middle value, or the mean of the two middle ones; NaN if empty. */
export function median(values: readonly number[]): number {
  const a = [...values].sort((x, y) => x - y);
  const i = a.length >> 1;
  return a.length % 2 ? a[i] : (a[i - 1] + a[i]) / 2;
}

export interface Machine {
  readonly cpu: string;
  /** Instruction sets that matter for peers and V8. */
  readonly features: readonly string[];
  readonly cores: number;
  readonly memoryGiB: number;
  readonly caches: string;
  readonly node: string;
  readonly date: string;
  /** One-minute load average at the start. Well above 0 means that other work ran too. */
  readonly load: number;
}

const FEATURES = ['avx2', 'fma', 'f16c', 'avx_vnni', 'avx512f', 'avx512_vnni', 'asimd', 'asimddp', 'i8mm'];

const text = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8').trim() : '');

export function machine(node = process.versions.node): Machine {
  const known = new Set(/^(?:flags|Features)\s*:(.*)$/m.exec(text('/proc/cpuinfo'))?.[1].trim().split(/\s+/));
  const caches = [0, 1, 2, 3, 4]
    .map((i) => `/sys/devices/system/cpu/cpu0/cache/index${i}`)
    .filter((d) => existsSync(d) && text(`${d}/type`) !== 'Instruction');
  return {
    cpu: cpus()[0]?.model.trim() || process.arch,
    features: FEATURES.filter((f) => known.has(f)),
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    caches: caches.map((d) => `L${text(`${d}/level`)} ${text(`${d}/size`)}`).join(', '),
    node,
    date: new Date().toISOString(),
    load: Math.round(loadavg()[0] * 100) / 100,
  };
}

export const describeMachine = (m: Machine): string =>
  `${m.cpu} (${m.features.join(' ')}), ${m.cores} cores, ${m.caches}, ${m.memoryGiB} GiB; Node ${m.node}; ${m.date.slice(0, 16).replace('T', ' ')} UTC; load ${m.load} when it began`;

/** Warns if the load average makes figures doubtful. */
export function warnIfBusy(m: Machine): void {
  if (m.load > 0.5) console.error(`note: the load average is ${m.load}; figures of a busy machine are doubtful, their ratios less so`);
  if (freemem() < 2 ** 30) console.error('note: less than 1 GiB of memory is free');
}

const slug = (s: string): string =>
  s
    .toLowerCase()
    .replaceAll(/\(r\)|\(tm\)|processor|cpu @.*$/g, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');

/** Name of a machine's results: `<date>-<cpu>-node<major>`. */
export const resultName = (m: Machine): string => `${m.date.slice(0, 10)}-${slug(m.cpu)}-node${Number.parseInt(m.node)}`;
export const machineName = (m: Machine): string => slug(m.cpu);

/** Writes a file of bench/results, or of `folder`, atomically. */
export function writeResult(name: string, content: string, folder = resolve(root, 'bench/results')): string {
  const path = resolve(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.part`, content.endsWith('\n') ? content : `${content}\n`);
  renameSync(`${path}.part`, path);
  return path;
}

/** Path of a model of this shape in .cache, which is written if missing. */
export async function benchModel(shape: Partial<Shape> = {}): Promise<string> {
  const path = resolve(cache, modelName(shape));
  if (!existsSync(path)) {
    mkdirSync(cache, { recursive: true });
    console.error(`writing ${path} ...`);
    await writeBenchModel(path, shape);
  }
  return path;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: { readonly [name: string]: string };
  readonly timeoutMs?: number;
}

/** Standard output of a command that must succeed. The error has its standard error. */
export function run(
  command: string,
  args: readonly (string | number)[],
  { cwd = root, env = {}, timeoutMs = 300_000 }: RunOptions = {},
): Promise<string> {
  const { NODE_OPTIONS: _, QUANTLET_BUILD: __, ...clean } = process.env;
  return new Promise((done, fail) => {
    const child = spawn(command, args.map(String), {
      cwd,
      env: { ...clean, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (s: string) => (out += s));
    child.stderr.setEncoding('utf8').on('data', (s: string) => (err += s));
    child
      .on('error', fail)
      .on('close', (code, signal) =>
        code === 0
          ? done(out)
          : fail(
              new Error(
                `${command} ${args.slice(0, 3).join(' ')} ...: ${signal ?? `exit code ${code}`}\n${err.trim().split('\n').slice(-5).join('\n')}`,
              ),
            ),
      );
  });
}

/** A markdown table. All columns except the first are right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((h, i) => Math.max(h.length, ...rows.map((r) => r[i].length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((c, i) => (i === 0 ? c.padEnd(widths[i]) : c.padStart(widths[i]))).join(' | ')} |`;
  return [
    line(head),
    `| ${widths.map((w, i) => (i === 0 ? '-'.repeat(w) : `${'-'.repeat(w - 1)}:`)).join(' | ')} |`,
    ...rows.map(line),
  ].join('\n');
}

/** At least three significant digits, no exponent. */
export const show = (x: number): string => (!Number.isFinite(x) ? '-' : x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
