/**
 * Helpers for the engine's tests: paths of data, builds, child processes, and small models made
 * from a golden one.
 */
import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { Model } from 'quantlet';
import { readGGUF } from '../src/gguf/read.ts';
import type { GGUFType, GGUFValue } from '../src/gguf/types.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../src/gguf/write.ts';
import { toBytes } from '../src/io/source.ts';

export { BUILDS, RUNS } from './builds.ts';

export const root = new URL('../', import.meta.url);
/**
 * Path of a file of the checkout. (The pathname of a URL is not a path on Windows, nor if it has a
 * space or an umlaut.)
 */
export const at = (path: string): string => fileURLToPath(new URL(path, root));

/** True if the large test data lies next to the checkout. A clone does not have it. */
export const hasShared = existsSync(new URL('../shared/golden/', root));
export const shared = (path: string): string => at(`../shared/${path}`);
export const shippedModel = at('models/tiny-stories-q4_0.gguf');
/**
 * A random llama of 31 thousand parameters with native llama.cpp's answers, part of every clone.
 */
export const llamaModel = at('test/golden/arch/llama.gguf');
export const entryUrl = new URL('dist/entry/node.js', root).href;
export const cliPath = at('dist/cli.js');
/**
 * True if the system has a device that is a full disk. (Wine has Linux's one, as a file of a
 * drive.)
 */
export const hasFullDisk = process.platform !== 'win32' && existsSync('/dev/full');

/**
 * Tolerated difference of logits from native llama.cpp's, relative to the largest |logit|, by
 * weight type.
 *
 * Native does not agree with itself more closely. A prompt in one batch and token by token differ
 * by up to 0.1 % with F32 and F16 weights, and by up to 2 % with quantised ones. Activations are
 * rounded to f16 or 8 bits, and one that rounds the other way affects what follows. These figures
 * are from two models of 260 thousand and 2.2 million parameters, and each bound leaves a factor of
 * 1.5 to 2. BF16 has 8 bits of mantissa to F16's 11.
 */
export const TOLERANCE = { f32: 2e-3, f16: 2e-3, bf16: 1e-2, quantised: 3e-2 } as const;

export interface Greedy {
  readonly prompt_ids: readonly number[];
  readonly ids: readonly number[];
  /** Best minus second-best logit of each step. */
  readonly margins: readonly number[];
  /** Differences of native's logits from run to run. */
  readonly noise: number;
}

/**
 * Describes the first id that differs from native's; '' if none does. A difference is ignored if
 * its margin is within native's own noise on both logits.
 */
export function greedyFault(ids: readonly number[], { ids: want, margins, noise }: Greedy): string {
  if (ids.length !== want.length) return `${ids.length} ids, native ${want.length}`;
  const k = want.findIndex((id, i) => ids[i] !== id);
  return k < 0 || margins[k] < 2 * noise ? '' : `step ${k}: got ${ids[k]}, native ${want[k]} by a margin of ${margins[k]} (noise ${noise})`;
}

/** Ids of greedy generation for a golden prompt, as many as native has. */
export const greedyIds = async (model: Model, { prompt_ids, ids }: Greedy): Promise<readonly number[]> =>
  (await model.generate(prompt_ids, { temperature: 0, maxTokens: ids.length, ignoreEos: true }).result()).ids;

/**
 * Logits of positions from `from` on, one array each, in a new slot. The prompt is fed in batches
 * of the given sizes (the last one repeats). If an encoder reads prompts, it has read the ids, and
 * the decoder gets its start token and the same ids. The model must be loaded with maxOutputs of at
 * least the largest batch.
 */
export async function logitsOf(
  model: Model,
  ids: readonly number[],
  sizes: readonly number[] = [ids.length],
  from = 0,
): Promise<Float32Array[]> {
  const { scheduler, slots, engine } = model.internals;
  const slot = await slots.acquire();
  const rows: Float32Array[] = [];
  try {
    slot.truncate(0);
    const { decoder } = engine.hparams;
    if (decoder) await scheduler.encode(slot, ids);
    const tokens = decoder ? [decoder.start!, ...ids] : ids;
    for (let start = 0, i = 0; start < tokens.length; i++) {
      const part = tokens.slice(start, start + sizes[Math.min(i, sizes.length - 1)]);
      await scheduler.submit(slot, part, Math.max(0, from - start), (logits) => rows.push(logits.slice()));
      start += part.length;
    }
  } finally {
    slots.release(slot);
    if (slots.active === 0) engine.executor.rest();
  }
  return rows;
}

/** Describes the first difference in bits; '' if all are equal. */
export function bitDifference(got: readonly Float32Array[], want: readonly Float32Array[]): string {
  if (got.length !== want.length) return `${got.length} rows, want ${want.length}`;
  for (const [row, a] of got.entries()) {
    const x = new Uint32Array(a.buffer, a.byteOffset, a.length);
    const y = new Uint32Array(want[row].buffer, want[row].byteOffset, want[row].length);
    const i = x.findIndex((bits, j) => bits !== y[j]);
    if (i >= 0) return `row ${row} of ${got.length}, index ${i}: got ${a[i]}, want ${want[row][i]}`;
  }
  return '';
}

/**
 * Milliseconds of processor time of this process. A busy machine changes it less than elapsed time.
 */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/**
 * Token ids below `most`, reproducible by seed (a linear congruential generator is good enough
 * here).
 */
export function randomIds(n: number, most: number, seed: number): number[] {
  let state = seed >>> 0;
  return Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  });
}

/** Makes a folder that is removed after the file's tests. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'quantlet-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Makes a folder with its own node_modules: this package, and the named ones of its node_modules.
 * It is removed after the file's tests.
 */
export function projectFolder(...packages: readonly string[]): string {
  const folder = temporaryFolder();
  for (const [name, to] of [['quantlet', '.'], ...packages.map((name) => [name, `node_modules/${name}`])]) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(at(to), link, 'junction'); // Windows allows other links to administrators only
  }
  return folder;
}

/** Changes to a file. A plain value keeps its old type; undefined removes a key or a tensor. */
export interface Patch {
  readonly metadata?: { readonly [key: string]: WriteValue | string | number | undefined };
  readonly tensors?: { readonly [name: string]: (Omit<WriteTensor, 'name'> & { data?: Uint8Array }) | undefined };
  readonly version?: number;
}

/**
 * The golden llama, or another file, with other metadata or tensors. New tensors are zeros unless
 * data is given.
 */
export async function patchedLlama(
  { metadata: keys = {}, tensors: shapes = {}, version = 3 }: Patch = {},
  path: string = llamaModel,
): Promise<Uint8Array<ArrayBuffer>> {
  const file = readFileSync(path);
  const gguf = await readGGUF(toBytes(file));
  const metadata = new Map<string, WriteValue>();
  const typed = (type: GGUFType, value: GGUFValue): WriteValue => ({ type, value });
  for (const [key, value] of gguf.metadata) if (!(key in keys)) metadata.set(key, typed(gguf.metadataTypes.get(key)!, value));
  for (const [key, value] of Object.entries(keys)) {
    if (value !== undefined)
      metadata.set(
        key,
        typeof value === 'object' ? value : typed(gguf.metadataTypes.get(key) ?? (typeof value === 'string' ? 'str' : 'u32'), value),
      );
  }
  const patched = (name: string): (WriteTensor & { readonly data: Uint8Array })[] => {
    const other = shapes[name];
    if (!other) return [];
    const size = (other.ne.reduce((a, b) => a * b, 1) / other.type.blckSize) * other.type.typeSize;
    return [{ name, ...other, data: other.data ?? new Uint8Array(size) }];
  };
  const tensors: (WriteTensor & { readonly data: Uint8Array })[] = [...gguf.tensors.values()].flatMap(
    ({ name, type, ne, nDims, offset, byteLength }) =>
      name in shapes ? patched(name) : [{ name, type, ne: ne.slice(0, nDims), data: file.subarray(offset, offset + byteLength) }],
  );
  tensors.push(...Object.keys(shapes).flatMap((name) => (gguf.tensors.has(name) ? [] : patched(name))));
  return Uint8Array.from(writeGGUF(metadata, tensors, version));
}

export function writeTo(folder: string, name: string, bytes: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

export interface Exit {
  /** Exit code, or the signal that ended the process. */
  readonly code: number | NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
  /** The part of `ms` after the last output on stdout. */
  readonly silentMs: number;
}

/**
 * Runs a program to its end. A process that takes longer than `timeout` ms is killed and has the
 * code SIGKILL.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  {
    env = {},
    cwd = undefined as string | undefined,
    timeout = 30_000,
    input = '',
    onStdout = (_text: string, _kill: (signal: NodeJS.Signals) => void): void => {},
    onStderr = (_text: string, _kill: (signal: NodeJS.Signals) => void): void => {},
  } = {},
): Promise<Exit> {
  const start = performance.now();
  let heard = start;
  const { NODE_OPTIONS: _, QUANTLET_BUILD: __, ...clean } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { env: { ...clean, ...env }, cwd, timeout, killSignal: 'SIGKILL' });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      heard = performance.now();
      onStdout(stdout, (signal) => child.kill(signal));
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      onStderr(stderr, (signal) => child.kill(signal));
    });
    child.stdin.on('error', () => {}).end(input);
    child.on('error', reject).on('close', (code, signal) => {
      const now = performance.now();
      resolve({ code: code ?? signal, stdout, stderr, ms: now - start, silentMs: now - heard });
    });
  });
}

export const runNode = (args: readonly string[], options?: Parameters<typeof runProgram>[2]): Promise<Exit> =>
  runProgram(process.execPath, args, options);

export const runCli = (args: readonly (string | number)[], options?: Parameters<typeof runNode>[1]): Promise<Exit> =>
  runNode([cliPath, ...args.map(String)], options);

/** Runs a command with a file as its standard input, as a shell does for `quantlet ... < input`. */
export function spawnWithInput(input: string, ...args: readonly string[]): SpawnSyncReturns<string> {
  const file = openSync(input, 'r');
  try {
    return spawnSync(process.execPath, [cliPath, ...args], { stdio: [file, 'pipe', 'pipe'], encoding: 'utf8' });
  } finally {
    closeSync(file); // Windows removes no folder with an open file
  }
}

/**
 * Runs a module in a process of its own, with `loadModel` and `llama` (the golden model's path)
 * defined.
 */
export const runScript = (source: string, options?: Parameters<typeof runNode>[1]): Promise<Exit> =>
  runNode(
    [
      '--input-type=module',
      '-e',
      `import { loadModel } from ${JSON.stringify(entryUrl)};\nconst llama = ${JSON.stringify(llamaModel)};\n${source}`,
    ],
    options,
  );

/**
 * The rejection of a promise: code, message and error. Coded errors are recognised by their code,
 * because the tests' class is not the package's.
 */
export async function failure(
  work: Promise<unknown> | (() => Promise<unknown>),
): Promise<{ code: string; message: string; error: unknown }> {
  try {
    await (typeof work === 'function' ? work() : work);
  } catch (error) {
    const { code, name, message } = error as { code?: unknown; name?: string; message?: string };
    return { code: name === 'QuantletError' ? String(code) : `${name}`, message: String(message), error };
  }
  return { code: 'none', message: 'it did not fail', error: undefined };
}
