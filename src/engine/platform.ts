/** The interface between src/ and the runtime it runs in. */
import type { WasmModule } from '../globals.ts';
import type { Bytes, SourceLike } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { Compute } from '../threads/serve.ts';
import type { SpawnedThreads, ThreadPool } from '../threads/pool.ts';
import type { Build, Features } from '../wasm/load.ts';

/** Whether V8 is to join pairs of 128-bit operations: where it can be had and gives the right bits, that and a warning where not, or never. */
export type Turbo = 'auto' | boolean;

/** How far loading is: first files that are downloaded, one after the other (Node, Deno and Bun), then the weights as they are read. */
export interface LoadProgress {
  readonly phase: 'download' | 'load';
  /** Bytes so far, and in all: Infinity where the server does not say. */
  readonly loaded: number;
  readonly total: number;
  /** The name of the file that is downloaded. */
  readonly file?: string;
}

export interface OpenedFile {
  readonly bytes: Bytes;
  /** Its path or URL, where it has one: the names of a split model's other files follow from it. */
  readonly name?: string | undefined;
  /** What open() is to be given for a file beside this one. Without it: its name. */
  sibling?(name: string): string | URL;
  close(): Promise<void>;
}

/** What an entry knows of its platform; everything else in src/ runs anywhere. */
export interface Platform {
  /** Opens paths, URLs and whatever toBytes takes; close() when the model is loaded. */
  open(source: string | URL | SourceLike, signal?: AbortSignal): Promise<OpenedFile>;
  features(): Features;
  /** A build the environment asks for (QUANTLET_BUILD), or undefined. */
  forcedBuild(): string | undefined;
  /**
   * `turbo`: false unless given; most platforms have none. It changes V8's flags, after which Node's own code is compiled again in the next worker to
   * start (55 ms in place of 27): so not before `workers` have started. (Kernels that were compiled before must not run afterwards: Node 24 ended the process.)
   */
  module(build: Build, turbo?: Turbo, workers?: Promise<unknown>): Promise<WasmModule>;
  /** Whether a module has turbo. */
  isTurbo?(module: WasmModule): boolean;
  defaultThreads(): number;
  /** Threads over memories; spawnThreads() instead where they can be started before there are any. */
  createThreadPool?(compute: Compute, nth: number): Promise<ThreadPool>;
  spawnThreads?(nth: number): SpawnedThreads;
  /** Whether a shared memory can be made with as much to grow as one can have, at no cost: V8 reserves the addresses anyway. */
  readonly growsMemory?: boolean;
  /** Bytes of memory that this process can still have, where the system says so. */
  freeMemory?(): number | undefined;
  /** Shows what people should know of a model that loads all the same. Absent: nobody is told but by `model.warnings`. */
  warn?(message: string): void;
  /** A model was loaded, or was not: what was only kept ready for it goes. */
  loaded?(): void;
  /** For builds without threads, where another thread is to compute, or this one in a way of its own; by default this one computes (threads/single.ts). */
  createExecutor?(module: WasmModule, memoryBytes: readonly number[]): Promise<Executor>;
}
