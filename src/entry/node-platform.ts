/** Node, Deno and Bun as a Platform: files, kernels from the package's folder, flags of V8. Not exported from the package: its own command line uses it too. */
import { readFileSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { QuantletError } from '../errors.ts';
import type { OpenedFile, Platform, Turbo } from '../engine/platform.ts';
import { freeMemory } from './free-memory.ts';
import { refuseUnfit } from './unfit-machine.ts';
import { changedWhileRead, checkedBytes, cutWhileRead, toBytes } from '../io/source.ts';
import { defaultThreads, spawnThreads } from '../threads/node.ts';
import { packageFile } from '../threads/package-files.ts';
import { BUILDS, detectFeatures, isRelaxed, isThreaded, type Build, type Features } from '../wasm/load.ts';
import { compileTurbo, compileTurboLazily, isTurbo } from '../turbo/compile.ts';
import { turboVerdict, unavailable } from '../turbo/verdict.ts';
import { outOfMemory } from '../wasm/memory.ts';
import { withSharedMemory } from '../wasm/shared-memory.ts';
import { cacheFolder } from '../hub/cache-folder.ts';
import { bring, createStore, type ModelStore } from '../hub/model-store.ts';
import { advice, isRemote, locate, remoteOf } from '../hub/repository.ts';
import { openUrl, repoHint } from '../io/open-url.ts';
import type { LoadOptions } from '../load-options.ts';

// A literal URL for each: bundlers and nft follow these, and lose computed ones.
const SIMD = import.meta.url ? new URL('../../dist/wasm/simd.wasm', import.meta.url) : undefined;
const RELAXED = import.meta.url ? new URL('../../dist/wasm/relaxed.wasm', import.meta.url) : undefined;
const DOTADD = import.meta.url ? new URL('../../dist/wasm/dotadd.wasm', import.meta.url) : undefined;
const WASM = { simd: SIMD, relaxed: RELAXED, dotadd: DOTADD };

/** The file of a build, in which the memory is not shared: with threads and without it is the same. */
function wasmFile(build: Build): string {
  const kind = build.replace(/-threads$/, '') as keyof typeof WASM;
  return packageFile(WASM[kind], `dist/wasm/${kind}.wasm`);
}

let features: Features | undefined;

/**
 * Detected once: V8 keeps the code of a module that it has seen, and in a process whose flags turbo has changed since, Node 26 ends with a segmentation
 * fault when it is instantiated again (code that counts its calls, and an instance without room for the counts).
 */
function featuresOnce(): Features {
  refuseUnfit();
  return (features ??= detectFeatures());
}

/**
 * Node 20 has relaxed SIMD behind a flag of the whole process, which reaches existing workers too. Only the command line and
 * whoever asks for a relaxed build set it; newer versions have it on and know no such flag.
 */
export function enableRelaxedSimd(): void {
  if (!process.versions.node.startsWith('20.') || featuresOnce().relaxed) return;
  setFlagsFromString('--experimental-wasm-relaxed-simd');
  features = undefined;
}

/** What a build that was asked for needs of the process. */
export function enableFor(wanted: string | undefined): void {
  const build = wanted || platform.forcedBuild();
  if (BUILDS.some((b) => b === build && isRelaxed(b))) enableRelaxedSimd();
}

const modules = new Map<string, Promise<WebAssembly.Module>>();

/** A build's module by what makes it, made once. */
function once(key: string, make: () => Promise<WebAssembly.Module>): Promise<WebAssembly.Module> {
  const known = modules.get(key) ?? make();
  modules.set(key, known);
  known.catch(() => modules.delete(key));
  return known;
}

/** A build's file. Read at once: it takes a tenth of a millisecond, and a promise for it comes back when this thread has nothing else to do. */
const bytesOf = (build: Build): Uint8Array<ArrayBuffer> => withSharedMemory(readFileSync(wasmFile(build)), isThreaded(build));

async function compile(build: Build): Promise<WebAssembly.Module> {
  const bytes = bytesOf(build);
  // Since Node 24 a process that waits for nothing but V8's compilers ends (with --no-wasm-lazy-compilation, say): a timer keeps it.
  const wait = setInterval(() => {}, 1000);
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw outOfMemory(`compiling the build ${build}`, cause);
  } finally {
    clearInterval(wait);
  }
}

let ownProcess = false;

/** Says that this process runs nothing but quantlet, as the command line's: V8's flags may stay as turbo wants them. */
export function takeProcess(): void {
  ownProcess = true;
}

let turboOff: string | undefined;

/** Why turbo was last asked for in vain, in words. */
export const whyNoTurbo = (): string | undefined => turboOff;

/** The build with turbo where that is right here, else without. */
async function compileWithTurbo(build: Build, workers: Promise<unknown> | undefined): Promise<WebAssembly.Module> {
  turboOff = unavailable();
  if (turboOff === '') {
    const path = wasmFile(build);
    const bytes = bytesOf(build);
    turboOff = await turboVerdict(cacheFolder(process.env), path, build, bytes);
    await workers;
    if (turboOff === '') return (ownProcess ? compileTurboLazily : compileTurbo)(bytes);
  }
  return platform.module(build);
}

async function turboModule(build: Build, wanted: Turbo, workers: Promise<unknown> | undefined): Promise<WebAssembly.Module> {
  const module = await once(`${build} with turbo`, () => compileWithTurbo(build, workers));
  // The command line has lines of its own.
  if (wanted === true && !isTurbo(module) && !ownProcess)
    process.emitWarning(`turbo is off: ${turboOff}`, { type: 'QuantletWarning', code: 'QUANTLET_TURBO_OFF' });
  return module;
}

/** Why a file cannot be read, in words. */
export const whyNot = ({ code, message }: NodeJS.ErrnoException): string =>
  code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : message;

async function openFile(path: string): Promise<OpenedFile> {
  const problem = (cause: NodeJS.ErrnoException): never => {
    const hint = /^~[\\/]/.test(path) ? '; ~ is the home folder to a shell alone: give the whole path' : repoHint(path);
    throw new QuantletError('ERR_SOURCE', `cannot open ${path}: ${whyNot(cause)}${cause.code === 'ENOENT' ? hint : ''}`, { cause });
  };
  // A folder can be opened, but not read.
  await stat(path).then((s) => s.isDirectory() && problem(Object.assign(new Error(), { code: 'EISDIR' })), problem);
  const file = await open(path).catch(problem);
  const { size, ino, mtimeMs } = await file.stat().catch(problem);
  const readInto = async (target: Uint8Array, start: number, signal?: AbortSignal): Promise<void> => {
    for (let at = 0; at < target.length;) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(target, at, target.length - at, start + at);
      if (bytesRead === 0) throw cutWhileRead(path, start + at, target.length - at);
      at += bytesRead;
    }
    // Weights may be read for as long as the model is in use.
    const now = await file.stat();
    if (now.size !== size || now.mtimeMs !== mtimeMs) throw changedWhileRead(path);
  };
  const read = async (start: number, end: number): Promise<Uint8Array> => {
    const chunk = new Uint8Array(end - start);
    await readInto(chunk, start);
    return chunk;
  };
  const identity = { path: resolve(path), ino, byteLength: size, mtimeMs };
  return { bytes: { ...checkedBytes(size, read), readInto, file: identity }, name: path, close: () => file.close() };
}

/** @throws ERR_INVALID_ARGUMENT */
function parsedUrl(text: string): URL {
  if (URL.canParse(text)) return new URL(text);
  throw new QuantletError('ERR_INVALID_ARGUMENT', `the source is "${text}", which is not a valid URL; expected a path or a file: URL`);
}

/** @throws ERR_INVALID_ARGUMENT for a URL of another machine, or of a name that no file has */
function pathOfUrl(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the source is "${url.href}", which names no file here: ${(cause as Error).message}; expected file:///PATH`,
      { cause },
    );
  }
}

export const platform: Platform = {
  open: async (source) => {
    if (typeof source !== 'string' && !(source instanceof URL)) return { bytes: toBytes(source), close: async () => {} };
    // import.meta.resolve gives a file: URL as a string.
    const url = typeof source !== 'string' ? source : /^(file:|https?:\/\/)/i.test(source) ? parsedUrl(source) : undefined;
    if (!url) return openFile(source as string);
    if (url.protocol === 'file:') return openFile(pathOfUrl(url));
    throw new QuantletError(
      'ERR_SOURCE',
      `cannot open ${url.href}: only paths and file: URLs are read here; download it first (quantlet/hub does), or give its bytes`,
    );
  },
  features: featuresOnce,
  forcedBuild: () => process.env.QUANTLET_BUILD,
  module: (build, turbo = false, workers) => (turbo ? turboModule(build, turbo, workers) : once(build, () => compile(build))),
  isTurbo,
  defaultThreads,
  spawnThreads,
  growsMemory: process.versions.bun === undefined,
  freeMemory: () => freeMemory((path) => readFileSync(path, 'utf8')),
  // The command line has lines of its own.
  warn: (message) => void (ownProcess || process.emitWarning(message, { type: 'QuantletWarning', code: 'QUANTLET_MODEL' })),
};

type NetOptions = Pick<LoadOptions, 'hub' | 'headers' | 'cache' | 'signal' | 'onProgress'>;

/** The models of the net and their folder, as a program's options say. */
export const storeFor = ({ hub, headers, cache, signal, onProgress }: NetOptions): ModelStore =>
  createStore({
    ...hub,
    headers,
    signal,
    reload: cache === 'reload',
    progress: (file) => ({
      set: (loaded, total = Infinity) => onProgress?.({ phase: 'download', loaded, total, file }),
      waiting() {},
      end() {},
    }),
    warn: (message) => process.emitWarning(message, { type: 'QuantletWarning', code: 'QUANTLET_DOWNLOAD' }),
  });

/** The platform of one load: what comes from the net is downloaded first, or (`cache: false`) read as it comes. */
export function platformFor(options: NetOptions & Pick<LoadOptions, 'build'>): Platform {
  enableFor(options.build);
  const openRemote = async (source: string | URL, signal: AbortSignal | undefined): Promise<OpenedFile> => {
    const store = storeFor(options);
    if (options.cache !== false) return openFile(await bring(store, remoteOf(source, store, 'the source')));
    const { url, headers } = await locate(store, source);
    return openUrl(url, { headers, signal, advice: (status) => advice(store, status) });
  };
  return { ...platform, open: (source, signal) => (isRemote(source) ? openRemote(source, signal) : platform.open(source, signal)) };
}
