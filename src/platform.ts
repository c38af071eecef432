/** The interface between src/ and the runtime it runs in. */
import type { WasmModule } from './globals.ts';
import type { Bytes, SourceLike } from './io/source.ts';
import type { Executor } from './threads/executor.ts';
import type { Compute } from './threads/serve.ts';
import type { SpawnedThreads, ThreadPool } from './threads/pool.ts';
import type { Build, Features } from './wasm/load.ts';

/**
 * Use of V8's revectoriser, which joins pairs of 128-bit operations. 'auto': if it is available and
 * gives the right bits. true: likewise, with a warning if not. false: never.
 */
export type Turbo = 'auto' | boolean;

/**
 * Progress of loading: first the files that are downloaded, one after the other (Node, Deno and
 * Bun), then the weights as they are read.
 */
export interface LoadProgress {
  readonly phase: 'download' | 'load';
  /** Bytes so far, and in all: Infinity if the server does not say. */
  readonly loaded: number;
  readonly total: number;
  /** Name of the file that is downloaded. */
  readonly file?: string;
}

export interface OpenedFile {
  readonly bytes: Bytes;
  /** Path or URL, if there is one. The names of a split model's other files follow from it. */
  readonly name?: string | undefined;
  /** Source to open for a file in the same folder. If absent, the file's name is opened. */
  sibling?(name: string): string | URL;
  /** Source of the model's projector, if the model is of a repository that has one. */
  readonly projector?: string | URL | undefined;
  close(): Promise<void>;
}

/** Functions of a platform, provided by its entry. Everything else in src/ runs anywhere. */
export interface Platform {
  /** Opens paths, URLs and whatever toBytes takes; close() when the model is loaded. */
  open(source: string | URL | SourceLike, signal?: AbortSignal): Promise<OpenedFile>;
  features(): Features;
  /** A build the environment asks for (QUANTLET_BUILD), or undefined. */
  forcedBuild(): string | undefined;
  /**
   * Compiles a build. `turbo` defaults to false; most platforms have none. Turbo changes V8's
   * flags, and the next worker to start then compiles Node's own code again. So the flags change
   * only after `workers` have started. Kernels that were compiled before must not run afterwards:
   * V8 may end the process.
   */
  module(build: Build, turbo?: Turbo, workers?: Promise<unknown>): Promise<WasmModule>;
  /** True if a module has turbo. */
  isTurbo?(module: WasmModule): boolean;
  defaultThreads(): number;
  /**
   * Starts threads over memories. Platforms that can start threads before there are memories have
   * spawnThreads() instead.
   */
  createThreadPool?(compute: Compute, nth: number): Promise<ThreadPool>;
  spawnThreads?(nth: number): SpawnedThreads;
  /** Bytes of memory that this process can still get, if the system tells. */
  freeMemory?(): number | undefined;
  /**
   * Shows a warning about a model that was loaded nevertheless. If absent, warnings are only in
   * `model.warnings`.
   */
  warn?(message: string): void;
  /** Called after a model was loaded or failed to load: frees what was only kept ready for it. */
  loaded?(): void;
  /**
   * Creates the executor of builds without threads, if another thread is to compute, or this one in
   * its own way. By default this thread computes (threads/single.ts).
   */
  createExecutor?(module: WasmModule, memoryBytes: readonly number[]): Promise<Executor>;
}
