/** Shared by the tests of the engine: where data is, the builds, child processes, and small models made from a golden one. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { Model } from 'quantlet';
import { readGGUF } from '../src/gguf/read.ts';
import type { GGUFType, GGUFValue } from '../src/gguf/types.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../src/gguf/write.ts';
import { toBytes } from '../src/source.ts';

export { BUILDS, RUNS } from './builds.ts';

export const root = new URL('../', import.meta.url);
const at = (path: string): string => fileURLToPath(new URL(path, root));

/** The maker's data beside the checkout; absent in a clone. */
export const hasShared = existsSync(new URL('../shared/golden/', root));
export const shared = (path: string): string => at(`../shared/${path}`);
export const shippedModel = at('models/tiny-stories-q4_0.gguf');
/** A random llama of 31 thousand parameters with native llama.cpp's answers, in every clone. */
export const llamaModel = at('test/golden/arch/llama.gguf');
export const entryUrl = new URL('dist/entry/node.js', root).href;
export const cliPath = at('dist/cli.js');

/** Of the largest |logit|: native llama.cpp moves its own logits by so much between one batch and token by token (ground rule 9). */
export const TOLERANCE = { f32: 2e-3, f16: 2e-3, bf16: 1e-2, quantised: 3e-2 } as const;

export interface Greedy {
  readonly prompt_ids: readonly number[];
  readonly ids: readonly number[];
  /** Best minus second best logit of each step. */
  readonly margins: readonly number[];
  /** How far native's logits are from themselves. */
  readonly noise: number;
}

/** '' where ids are native's; a first difference counts where its margin is clear of native's own noise on both logits. */
export function greedyFault(ids: readonly number[], { ids: want, margins, noise }: Greedy): string {
  if (ids.length !== want.length) return `${ids.length} ids, native ${want.length}`;
  const k = want.findIndex((id, i) => ids[i] !== id);
  return k < 0 || margins[k] < 2 * noise ? '' : `step ${k}: got ${ids[k]}, native ${want[k]} by a margin of ${margins[k]} (noise ${noise})`;
}

/** What greedy generation gives for a golden prompt, as many ids as native gave. */
export const greedyIds = async (model: Model, { prompt_ids, ids }: Greedy): Promise<readonly number[]> =>
  (await model.generate(prompt_ids, { temperature: 0, maxTokens: ids.length, ignoreEos: true }).result()).ids;

/**
 * Logits of positions from `from` on, one array each, in a fresh slot; the prompt goes in as batches of the given sizes (the last one repeats).
 * Needs a model loaded with maxOutputs of the largest batch.
 */
export async function logitsOf(model: Model, ids: readonly number[], sizes: readonly number[] = [ids.length], from = 0): Promise<Float32Array[]> {
  const { scheduler, slots } = model.state;
  const slot = await scheduler.acquire();
  const rows: Float32Array[] = [];
  try {
    slots[slot].tokens.length = 0; // what is written here is not what generate() would find again
    for (let start = 0, i = 0; start < ids.length; i++) {
      const part = ids.slice(start, start + sizes[Math.min(i, sizes.length - 1)]);
      await scheduler.submit(slot, start, part, Math.max(0, from - start), (logits) => rows.push(logits.slice()));
      start += part.length;
    }
  } finally {
    scheduler.release(slot);
    if (scheduler.active === 0) model.state.engine.executor.rest();
  }
  return rows;
}

/** '' where all bits are equal, else the first place that differs. */
export function bitDifference(got: readonly Float32Array[], want: readonly Float32Array[]): string {
  if (got.length !== want.length) return `${got.length} rows, want ${want.length}`;
  for (const [row, a] of got.entries()) {
    const x = new Uint32Array(a.buffer, a.byteOffset, a.length), y = new Uint32Array(want[row].buffer, want[row].byteOffset, want[row].length);
    const i = x.findIndex((bits, j) => bits !== y[j]);
    if (i >= 0) return `row ${row} of ${got.length}, index ${i}: got ${a[i]}, want ${want[row][i]}`;
  }
  return '';
}

/** Token ids below `most`, the same ones for a seed (a linear congruential generator: nothing here needs better). */
export function randomIds(n: number, most: number, seed: number): number[] {
  let state = seed >>> 0;
  return Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  });
}

/** A folder that is gone after the file's tests. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'quantlet-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Values as they are in the file take their old type; undefined takes a key or a tensor away. */
export interface Patch {
  readonly metadata?: { readonly [key: string]: WriteValue | string | number | undefined };
  readonly tensors?: { readonly [name: string]: (Omit<WriteTensor, 'name'> & { data?: Uint8Array }) | undefined };
  readonly version?: number;
}

/** The golden llama with other metadata or tensors; new tensors are zeros unless data is given. */
export async function patchedLlama({ metadata: keys = {}, tensors: shapes = {}, version = 3 }: Patch = {}): Promise<Uint8Array<ArrayBuffer>> {
  const file = readFileSync(llamaModel);
  const gguf = await readGGUF(toBytes(file));
  const metadata = new Map<string, WriteValue>();
  const typed = (type: GGUFType, value: GGUFValue): WriteValue => ({ type, value });
  for (const [key, value] of gguf.metadata) if (!(key in keys)) metadata.set(key, typed(gguf.metadataTypes.get(key)!, value));
  for (const [key, value] of Object.entries(keys)) {
    if (value !== undefined) metadata.set(key, typeof value === 'object' ? value : typed(gguf.metadataTypes.get(key) ?? (typeof value === 'string' ? 'str' : 'u32'), value));
  }
  const tensors = [...gguf.tensors.values()].flatMap(({ name, type, ne, nDims, offset, byteLength }) => {
    if (!(name in shapes)) return [{ name, type, ne: ne.slice(0, nDims), data: file.subarray(offset, offset + byteLength) }];
    const other = shapes[name];
    return other ? [{ name, ...other, data: other.data ?? new Uint8Array((other.ne.reduce((a, b) => a * b, 1) / other.type.blckSize) * other.type.typeSize) }] : [];
  });
  return Uint8Array.from(writeGGUF(metadata, tensors, version));
}

export function writeTo(folder: string, name: string, bytes: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

export interface Exit {
  /** Exit code, or the signal that ended it. */
  readonly code: number | NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** Runs a program with these arguments to its end; a process that takes longer than `timeout` ms is killed and shows as SIGKILL. */
export function runProgram(program: string, args: readonly string[], { env = {}, timeout = 30_000, input = '', onStdout = (_text: string, _kill: (signal: NodeJS.Signals) => void): void => {} } = {}): Promise<Exit> {
  const start = performance.now();
  const { NODE_OPTIONS: _, QUANTLET_BUILD: __, ...clean } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { env: { ...clean, ...env }, timeout, killSignal: 'SIGKILL' });
    let stdout = '', stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      onStdout(stdout, (signal) => child.kill(signal));
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.stdin.on('error', () => {}).end(input);
    child.on('error', reject).on('close', (code, signal) => resolve({ code: code ?? signal, stdout, stderr, ms: performance.now() - start }));
  });
}

export const runNode = (args: readonly string[], options?: Parameters<typeof runProgram>[2]): Promise<Exit> => runProgram(process.execPath, args, options);

export const runCli = (args: readonly (string | number)[], options?: Parameters<typeof runNode>[1]): Promise<Exit> => runNode([cliPath, ...args.map(String)], options);

/** Runs a module in a process of its own; `loadModel` and `llama` (the golden model's path) are there. */
export const runScript = (source: string, options?: Parameters<typeof runNode>[1]): Promise<Exit> =>
  runNode(['--input-type=module', '-e', `import { loadModel } from ${JSON.stringify(entryUrl)};\nconst llama = ${JSON.stringify(llamaModel)};\n${source}`], options);

/** What a promise rejects with, as `CODE: message`; a coded error is told by its code since the tests' class is not the package's. */
export async function failure(work: Promise<unknown> | (() => Promise<unknown>)): Promise<{ code: string; message: string; error: unknown }> {
  try {
    await (typeof work === 'function' ? work() : work);
  } catch (error) {
    const { code, name, message } = error as { code?: unknown; name?: string; message?: string };
    return { code: name === 'QuantletError' ? String(code) : `${name}`, message: String(message), error };
  }
  return { code: 'none', message: 'it did not fail', error: undefined };
}
