/** Parts of the tools' options: paths, progress, the loading of a model. */
import { fileURLToPath } from 'node:url';
import { enableFor, platform } from '../entry/node-platform.ts';
import { loadModel } from '../entry/node.ts';
import { QuantletError, tell } from '../errors.ts';
import { splitNames } from '../gguf/split.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { WriteValue } from '../gguf/write.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { Bytes } from '../io/source.ts';
import { LOAD_OPTIONS, type LoadOptions } from '../load-options.ts';
import type { Model } from '../model.ts';
import { KIND, or, whole, type Kind } from '../options.ts';
import { pickBuild } from '../wasm/load.ts';

/** A file by its path or its `file:` URL. */
export type FilePath = string | URL;

/** Stage of a tool. A tool may go through several. */
export type ToolPhase = 'loading' | 'measuring' | 'learning' | 'rotating' | 'sparsifying' | 'quantizing' | 'writing';

/** Progress of a tool: `done` of `total` (bytes, windows, steps or layers) of its phase. */
export interface ToolProgress {
  readonly phase: ToolPhase;
  readonly done: number;
  readonly total: number;
}

export interface ToolOptions<P extends ToolProgress = ToolProgress> {
  /** Ends the tool with `signal.reason`. Inputs are unchanged, and no unfinished output stays. */
  signal?: AbortSignal | undefined;
  /** Called with the progress. What it throws ends the tool. */
  onProgress?: ((progress: P) => void) | undefined;
}

/**
 * A model to measure: what loadModel takes, or a function that loads it with these options added
 * to its own: `(options) => loadModel('hf:OWNER/REPO', { turbo: 'auto', ...options })`.
 */
export type MeasuredModel = ModelSource | readonly ModelSource[] | ((options: LoadOptions) => Promise<Model>);

/** Options of a tool that runs a model over a text; with the options of loadModel. */
export interface MeasureOptions extends Omit<LoadOptions, 'parallel' | 'embeddings' | 'onProgress'> {
  /** Tokens of a window, at least 4 (`-c`). Default 512. */
  contextLength?: number | undefined;
  /** Most windows of the text. Default: all. */
  chunks?: number | undefined;
}

const { parallel: _, embeddings: __, onProgress: ___, ...loading } = LOAD_OPTIONS;
export const MEASURE_OPTIONS = { ...loading, contextLength: or(whole(4), 512), chunks: or(KIND.size, Infinity), onProgress: KIND.function };

export const PATH: Kind = {
  is: (v) => typeof v === 'string' || (v instanceof URL && v.protocol === 'file:'),
  expected: 'the path or file: URL of a file',
};
export const PATHS: Kind = { is: (v) => Array.isArray(v) && v.every(PATH.is), expected: 'a list of paths' };
export const TEXTS: Kind = { is: (v) => Array.isArray(v) && v.every(KIND.string.is), expected: 'a list of strings' };

export const pathOf = (file: FilePath): string => (typeof file === 'string' ? file : fileURLToPath(file));

/** Paths of the files that a model of this path has. */
export const partsOf = (file: string): readonly string[] => splitNames(file) ?? [file];

/** @throws ERR_INVALID_ARGUMENT */
export function checkText(where: string, text: unknown): asserts text is string {
  if (typeof text !== 'string') throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: the text is ${tell(text)}; expected a string`);
}

export const signalOf = (signal: AbortSignal | undefined): AbortSignal => signal ?? new AbortController().signal;

/** Loads a model with the options that a measurement needs. */
export const loaderOf =
  (model: MeasuredModel, given: MeasureOptions, onProgress: ToolOptions['onProgress']) =>
  (needed: LoadOptions): Promise<Model> => {
    const own = Object.fromEntries(Object.entries(given).filter(([name, value]) => name in loading && value !== undefined));
    const options: LoadOptions = { ...own, ...needed };
    if (typeof model === 'function') return model(options);
    return loadModel(model, {
      ...options,
      ...(onProgress && { onProgress: ({ loaded, total }) => onProgress({ phase: 'loading', done: loaded, total }) }),
    });
  };

/** Local files among a model's sources, which an output must not overwrite. */
export const filesOf = (model: MeasuredModel): string[] =>
  [model]
    .flat()
    .flatMap((one) => (typeof one === 'string' || (one instanceof URL && one.protocol === 'file:') ? partsOf(pathOf(one)) : []));

/** Reads from a file, which is open until then. */
export async function withFile<T>(path: string, signal: AbortSignal | undefined, read: (bytes: Bytes) => Promise<T>): Promise<T> {
  const { bytes, close } = await platform.open(path, signal);
  try {
    return await read(bytes);
  } finally {
    await close();
  }
}

/** The kernels without relaxed operations, which give the same bits on every machine. */
export const exactKernels = (): Promise<WebAssembly.Module> => platform.module(pickBuild(platform.features(), 'simd'));

/** The platform, after process flags are set that a build forced by the environment needs. */
export function toolPlatform(): typeof platform {
  enableFor(undefined);
  return platform;
}

/**
 * Metadata to replace: a whole number is written as u32, another number as f32, or as the type that
 * is given with a value.
 */
export type Overrides = Readonly<Record<string, string | number | boolean | WriteValue>>;

const typeOf = (value: string | number | boolean): 'str' | 'bool' | 'u32' | 'f32' => {
  if (typeof value !== 'number') return typeof value === 'string' ? 'str' : 'bool';
  return Number.isInteger(value) && value >= 0 && value < 2 ** 32 ? 'u32' : 'f32';
};

export const writtenOverrides = (all: Overrides = {}): Record<string, WriteValue> =>
  Object.fromEntries(Object.entries(all).map(([key, value]) => [key, typeof value === 'object' ? value : { type: typeOf(value), value }]));

/** Values of the overrides, as a reader of the new file gets them. */
export const readOverrides = (all: Overrides = {}): Record<string, GGUFValue> =>
  Object.fromEntries(Object.entries(writtenOverrides(all)).flatMap(([key, written]) => ('value' in written ? [[key, written.value]] : [])));
