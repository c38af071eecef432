/** Node, Deno and Bun as a Platform: files, kernels from the package's folder, flags of V8. Not exported from the package: its own command line uses it too. */
import { open, readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { QuantletError } from '../errors.ts';
import type { OpenedFile, Platform } from '../platform.ts';
import { checkedBytes, toBytes } from '../source.ts';
import { bundledError, createCrew, defaultThreads } from '../threads/node.ts';
import { BUILDS, detectFeatures, isRelaxed, type Build } from '../wasm/load.ts';
import { outOfMemory } from '../wasm/memory.ts';

// A literal URL for each: bundlers follow these, and lose computed ones.
const WASM: { readonly [K in Build]: URL } = {
  simd: new URL('../wasm/simd.wasm', import.meta.url),
  relaxed: new URL('../wasm/relaxed.wasm', import.meta.url),
  dotadd: new URL('../wasm/dotadd.wasm', import.meta.url),
  'simd-threads': new URL('../wasm/simd-threads.wasm', import.meta.url),
  'relaxed-threads': new URL('../wasm/relaxed-threads.wasm', import.meta.url),
  'dotadd-threads': new URL('../wasm/dotadd-threads.wasm', import.meta.url),
};

/**
 * Node 20 has relaxed SIMD behind a flag of the whole process, which reaches existing workers too. Only the command line and
 * whoever asks for a relaxed build set it; newer versions have it on and know no such flag.
 */
export function enableRelaxedSimd(): void {
  if (process.versions.node.startsWith('20.') && !detectFeatures().relaxed) setFlagsFromString('--experimental-wasm-relaxed-simd');
}

/** What a build that was asked for needs of the process. */
export function enableFor(wanted: string | undefined): void {
  const build = wanted || platform.forcedBuild();
  if (BUILDS.some((b) => b === build && isRelaxed(b))) enableRelaxedSimd();
}

/** Process state of enableTurbo: whether it was set, and whether it is too late. */
let turbo = false, compiled = false;

/**
 * V8's revectoriser joins pairs of 128-bit operations into 256-bit ones: Node 24 and newer on x64. It is a state of the process that only
 * modules compiled after it was set profit from, so a request that comes too late is answered with a warning; elsewhere nothing happens.
 */
export function enableTurbo(): void {
  const { node, bun, deno } = process.versions as { node: string; bun?: string; deno?: string };
  if (turbo || bun !== undefined || deno !== undefined || process.arch !== 'x64' || Number.parseInt(node) < 24) return;
  if (compiled) {
    process.emitWarning('turbo was asked for after quantlet had compiled its kernels in this process, and has no effect: ask for it in the first loadModel', { type: 'QuantletWarning', code: 'QUANTLET_TURBO_TOO_LATE' });
    return;
  }
  setFlagsFromString('--experimental-wasm-revectorize');
  turbo = true;
}

const modules = new Map<Build, Promise<WebAssembly.Module>>();

async function compile(build: Build): Promise<WebAssembly.Module> {
  const path = fileURLToPath(WASM[build]);
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') throw cause;
    throw bundledError(`${path} is missing`, cause);
  });
  compiled = true;
  return WebAssembly.compile(bytes).catch((cause: unknown) => {
    throw outOfMemory(`compiling the build ${build}`, cause);
  });
}

/** Why a file cannot be read, in words. */
export const whyNot = ({ code, message }: NodeJS.ErrnoException): string => (code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : message);

async function openFile(path: string): Promise<OpenedFile> {
  const problem = (cause: NodeJS.ErrnoException): never => {
    throw new QuantletError('ERR_SOURCE', `cannot open ${path}: ${whyNot(cause)}`, { cause });
  };
  const size = await stat(path).then((s) => (s.isDirectory() ? problem(Object.assign(new Error(), { code: 'EISDIR' })) : s.size), problem);
  const file = await open(path).catch(problem);
  const readInto = async (target: Uint8Array, start: number, signal?: AbortSignal): Promise<void> => {
    for (let at = 0; at < target.length; ) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(target, at, target.length - at, start + at);
      if (bytesRead === 0) throw new QuantletError('ERR_GGUF_TRUNCATED', `${path} ended at byte ${start + at}, ${target.length - at} more were expected; it was cut while being read`);
      at += bytesRead;
    }
  };
  const read = async (start: number, end: number): Promise<Uint8Array> => {
    const chunk = new Uint8Array(end - start);
    await readInto(chunk, start);
    return chunk;
  };
  return { bytes: { ...checkedBytes(size, read), readInto }, name: path, close: () => file.close() };
}

export const platform: Platform = {
  open: async (source) => {
    if (typeof source !== 'string' && !(source instanceof URL)) return { bytes: toBytes(source), close: async () => {} };
    // import.meta.resolve gives a file: URL as a string.
    const url = typeof source !== 'string' ? source : /^(file|https?):\/\//i.test(source) ? new URL(source) : undefined;
    if (!url) return openFile(source as string);
    if (url.protocol === 'file:') return openFile(fileURLToPath(url));
    throw new QuantletError('ERR_SOURCE', `cannot open ${url.href}: only paths and file: URLs are read here; download it first (quantlet run -m URL does), or give its bytes`);
  },
  features: detectFeatures,
  forcedBuild: () => process.env.QUANTLET_BUILD,
  module: (build) => {
    const known = modules.get(build) ?? compile(build);
    modules.set(build, known);
    known.catch(() => modules.delete(build));
    return known;
  },
  defaultThreads,
  createCrew,
};
