/** The interface between src/ and the runtime it runs in. */
import type { Bytes, SourceLike } from './source.ts';
import type { Executor } from './threads/executor.ts';
import type { Crew } from './threads/shared.ts';
import type { Build, Features } from './wasm/load.ts';

export interface OpenedFile {
  readonly bytes: Bytes;
  /** Its path or URL, where it has one: the other parts of a split model are told by it. */
  readonly name?: string | undefined;
  /** A file named like this one, as something open() takes; without it names are opened as they are. */
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
  module(build: Build): Promise<WebAssembly.Module>;
  defaultThreads(): number;
  createCrew(module: WebAssembly.Module, memory: WebAssembly.Memory, nth: number): Crew | Promise<Crew>;
  /** For single builds, where the caller's thread should not be the one that computes, or not in the usual way. */
  createExecutor?(module: WebAssembly.Module, memoryBytes: number, sync: number): Promise<Executor>;
}
