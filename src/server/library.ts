/** The files behind the models of a handler: what lists say about them, and changes of the list. */
import type { GGUFValue } from '../gguf/types.ts';
import type { ModelEntry } from './models.ts';

/** A model's files, as far as known without loading it. */
export interface ModelDescription {
  /** Bytes of all its files. */
  readonly bytes: number;
  readonly modified: Date;
  /** Number of weights. */
  readonly parameters?: number | undefined;
  /** Kind of the file as llama.cpp names it: `Q4_K_M`. */
  readonly quantization?: string | undefined;
  readonly metadata: ReadonlyMap<string, GGUFValue>;
}

/** State of a file's download. */
export interface PullProgress {
  readonly file: string;
  /** SHA-256 in hex, if the hub gives it. */
  readonly sha256?: string | undefined;
  readonly loaded: number;
  readonly total?: number | undefined;
}

/**
 * The files of a handler's models. Without the last three functions, clients cannot change the list
 * of models. With them, `createModels` must be used with `mayGrow`.
 */
export interface ModelLibrary {
  /** Describes a model of the list; undefined if nothing is known about its files. */
  describe(id: string): Promise<ModelDescription | undefined>;
  /** Downloads a model, and returns its entry for the list. */
  pull?(name: string, signal: AbortSignal, onProgress: (progress: PullProgress) => void): Promise<ModelEntry>;
  /** Gives a model a further name, and returns the entry for it. */
  copy?(id: string, name: string): Promise<ModelEntry>;
  /**
   * Removes a model's files, or a further name.
   * @param release unloads the model and takes it from the list; called before files are removed
   */
  remove?(id: string, release: () => Promise<void>): Promise<void>;
}
