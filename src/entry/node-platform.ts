/**
 * Platform of Node, Deno and Bun: files, kernels from the package's folder, V8's flags. Not
 * exported from the package; the command line uses it, too.
 */
import { readFileSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { QuantletError } from '../errors.ts';
import type { OpenedFile, Platform, Turbo } from '../platform.ts';
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
import { bringWithProjector, createStore, type ModelStore } from '../hub/model-store.ts';
import { isRemote } from '../hub/addresses.ts';
import { locate } from '../hub/locate.ts';
import { advice } from '../hub/requests.ts';
import { openUrl, repoHint } from '../io/open-url.ts';
import type { LoadOptions } from '../load-options.ts';

// A literal URL for each, because bundlers and nft follow literals but not computed URLs.
const SIMD = import.meta.url ? new URL('../../dist/wasm/simd.wasm', import.meta.url) : undefined;
const RELAXED = import.meta.url ? new URL('../../dist/wasm/relaxed.wasm', import.meta.url) : undefined;
const DOTADD = import.meta.url ? new URL('../../dist/wasm/dotadd.wasm', import.meta.url) : undefined;
const WASM = { simd: SIMD, relaxed: RELAXED, dotadd: DOTADD };

/**
 * File of a build, in which the memory is not shared. Builds with and without threads use the same
 * file.
 */
function wasmFile(build: Build): string {
  const kind = build.replace(/-threads$/, '') as keyof typeof WASM;
  return packageFile(WASM[kind], `dist/wasm/${kind}.wasm`);
}

let features: Features | undefined;

/**
 * Detects features once. V8 caches the code of a module. If turbo has changed the flags since, Node
 * 26 crashes when such a module is instantiated again, because the cached code counts calls and the
 * new instance has no room for the counts.
 */
function featuresOnce(): Features {
  refuseUnfit();
  return (features ??= detectFeatures());
}

/**
 * Enables relaxed SIMD on Node 20, where it needs a flag. The flag affects the whole process,
 * including running workers, so it is set only by the command line and for callers who ask for a
 * relaxed build. Newer versions have it enabled and do not know the flag.
 */
export function enableRelaxedSimd(): void {
  if (!process.versions.node.startsWith('20.') || featuresOnce().relaxed) return;
  setFlagsFromString('--experimental-wasm-relaxed-simd');
  features = undefined;
}

/** Sets process flags that a requested build needs. */
export function enableFor(wanted: string | undefined): void {
  const build = wanted || platform.forcedBuild();
  if (BUILDS.some((b) => b === build && isRelaxed(b))) enableRelaxedSimd();
}

const modules = new Map<string, Promise<WebAssembly.Module>>();

/** Caches a module by key, so that it is made once. */
function once(key: string, make: () => Promise<WebAssembly.Module>): Promise<WebAssembly.Module> {
  const known = modules.get(key) ?? make();
  modules.set(key, known);
  known.catch(() => modules.delete(key));
  return known;
}

/**
 * Bytes of a build. Read synchronously: it takes 0.1 ms, while a promise would resolve only when
 * this thread is idle.
 */
const bytesOf = (build: Build): Uint8Array<ArrayBuffer> => withSharedMemory(readFileSync(wasmFile(build)), isThreaded(build));

async function compile(build: Build): Promise<WebAssembly.Module> {
  const bytes = bytesOf(build);
  // Since Node 24, a process that waits only for V8's compilers ends (for example with
  // --no-wasm-lazy-compilation). A timer keeps it alive.
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

/**
 * Declares that this process runs only quantlet, like the command line's. V8's flags may then stay
 * set for turbo.
 */
export function takeProcess(): void {
  ownProcess = true;
}

let turboOff: string | undefined;

/** Reason that turbo was not used at the last request, in words. */
export const whyNoTurbo = (): string | undefined => turboOff;

/** Compiles the build with turbo if that is available and passes the self-test, else without. */
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
  // The command line reports this itself.
  if (wanted === true && !isTurbo(module) && !ownProcess)
    process.emitWarning(`turbo is off: ${turboOff}`, { type: 'QuantletWarning', code: 'QUANTLET_TURBO_OFF' });
  return module;
}

/** Reason that a file cannot be read, in words. */
export const whyNot = ({ code, message }: NodeJS.ErrnoException): string =>
  code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : message;

/** Throws ERR_SOURCE for a file that cannot be read, saying what it was read as. */
export const unreadable =
  (what: string, path: string) =>
  (cause: NodeJS.ErrnoException): never => {
    throw new QuantletError('ERR_SOURCE', `cannot read ${what} ${path}: ${whyNot(cause)}`, { cause });
  };

async function openFile(path: string): Promise<OpenedFile> {
  const problem = (cause: NodeJS.ErrnoException): never => {
    const hint = /^~[\\/]/.test(path) ? '; only a shell replaces ~ by the home folder: give the whole path' : repoHint(path);
    throw new QuantletError('ERR_SOURCE', `cannot open ${path}: ${whyNot(cause)}${cause.code === 'ENOENT' ? hint : ''}`, { cause });
  };
  // A folder can be opened but not read, and opening a pipe waits for a writer that may never come.
  const info = await stat(path).catch(problem);
  if (info.isDirectory()) problem(Object.assign(new Error(), { code: 'EISDIR' }));
  if (!info.isFile()) problem(new Error('it is a pipe, a socket or a device; expected a file, which can be read in any order'));
  const file = await open(path).catch(problem);
  const { size, ino, mtimeMs } = await file.stat().catch(problem);
  const readInto = async (target: Uint8Array, start: number, signal?: AbortSignal): Promise<void> => {
    for (let at = 0; at < target.length;) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(target, at, target.length - at, start + at);
      if (bytesRead === 0) throw cutWhileRead(path, start + at, target.length - at);
      at += bytesRead;
    }
    // Check every time: weights may be read for as long as the model is in use.
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

/** @throws ERR_INVALID_ARGUMENT for a URL of another machine, or of a name that no file can have */
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
    // import.meta.resolve returns a file: URL as a string.
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
  freeMemory: () => freeMemory((path) => readFileSync(path, 'utf8')),
  // The command line reports this itself.
  warn: (message) => void (ownProcess || process.emitWarning(message, { type: 'QuantletWarning', code: 'QUANTLET_MODEL' })),
};

type NetOptions = Pick<LoadOptions, 'hub' | 'headers' | 'cache' | 'signal' | 'onProgress'>;

/** Store of downloaded models and its folder, for a program's options. */
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

/**
 * Platform of one load. A remote model is downloaded first or, with `cache: false`, read directly
 * from the network.
 */
export function platformFor(options: NetOptions & Pick<LoadOptions, 'build'>): Platform {
  enableFor(options.build);
  let opened: ModelStore | undefined;
  const openRemote = async (source: string | URL, signal: AbortSignal | undefined): Promise<OpenedFile> => {
    const store = (opened ??= storeFor(options));
    if (options.cache !== false) {
      const { path, projector } = await bringWithProjector(store, source, 'the source');
      return { ...(await openFile(path)), projector };
    }
    const { url, headers, projector } = await locate(store, source);
    return { ...(await openUrl(url, { headers, signal, advice: (status) => advice(store, status) })), projector };
  };
  return { ...platform, open: (source, signal) => (isRemote(source) ? openRemote(source, signal) : platform.open(source, signal)) };
}
