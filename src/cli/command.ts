/** What the commands share: their shape, opening a model, texts from files. */
import { loadModel } from '../entry/node.ts';
import { platform, whyNot } from '../entry/node-platform.ts';
import type { GGUF } from '../gguf/types.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { LoraAdapter } from '../lora.ts';
import { openModelFiles } from '../model-files.ts';
import type { KvType } from '../graph/attention-ops.ts';
import type { Build } from '../wasm/load.ts';
import { QuantletError } from '../errors.ts';
import { printableLines } from '../printable.ts';
import type { FlagKey, Values } from './flags.ts';
import { resolveModel, type HubFlags } from './hub.ts';
import { progressBar } from './progress.ts';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

export interface Command {
  readonly name: string;
  /** `[flags] FILE` and the like. */
  readonly synopsis: string;
  readonly summary: string;
  readonly flags: readonly FlagKey[];
  readonly examples: readonly string[];
  /** What it takes besides flags, where that is one of a few words and no file. */
  readonly words?: readonly string[];
  /** More of the help, between the flags and the examples. */
  readonly notes?: string;
  /** Resolves to the exit code; an abort of the signal is Ctrl-C. */
  run(argv: readonly string[], signal: AbortSignal): Promise<number>;
}

/** The model that ships with the package. */
export const SHIPPED_MODEL = fileURLToPath(new URL('../../models/tiny-stories-q4_0.gguf', import.meta.url));

interface ModelFlags extends HubFlags {
  threads?: number;
  ctx?: number;
  batch?: number;
  build?: string;
  noWarmup?: boolean;
  turbo?: boolean;
  cacheTypeK?: string;
  cacheTypeV?: string;
  lora?: string[];
  loraScaled?: string[];
}

/** Flags that say which file: a path, a URL, or one of a repository of the hub. */
export const FILE_FLAGS = ['model', 'hf', 'hfFile', 'hfToken', 'offline'] as const satisfies readonly FlagKey[];

/** Flags that say which model: its file, and with which adapters. */
export const MODEL_FLAGS = [...FILE_FLAGS, 'lora', 'loraScaled'] as const satisfies readonly FlagKey[];

/** Flags that say what its cache is. */
export const CACHE_FLAGS = ['cacheTypeK', 'cacheTypeV'] as const satisfies readonly FlagKey[];

/** The flags with the path of the model that they name, downloaded where it has to be; of the one that ships where they name none. */
export async function located<V extends HubFlags>(values: V, signal: AbortSignal): Promise<Omit<V, 'hf' | 'hfFile'> & { model: string }> {
  const { hf: _, hfFile: __, ...rest } = values;
  return { ...rest, model: (await resolveModel(values, signal)) ?? SHIPPED_MODEL };
}

/** Loads the model of the flags, with a progress bar on stderr where that is a terminal. */
export async function openModel(values: ModelFlags, signal: AbortSignal, more: LoadOptions = {}): Promise<Model> {
  const { model: path } = await located(values, signal);
  const bar = progressBar('loading');
  try {
    return await loadModel(path, {
      contextLength: values.ctx ?? 0,
      warmUp: !values.noWarmup,
      signal,
      onProgress: ({ loaded, total }) => bar.set(loaded / total),
      ...(values.threads !== undefined ? { threads: values.threads } : {}),
      ...(values.batch !== undefined ? { batchSize: values.batch } : {}),
      ...(values.turbo ? { turbo: true } : {}),
      ...(values.build !== undefined ? { build: values.build as Build } : {}),
      ...(values.cacheTypeK !== undefined ? { cacheTypeK: values.cacheTypeK as KvType } : {}),
      ...(values.cacheTypeV !== undefined ? { cacheTypeV: values.cacheTypeV as KvType } : {}),
      lora: lorasOf(values),
      ...more,
    });
  } finally {
    bar.end();
  }
}

/** Lists with commas, as llama.cpp takes them; the scale is behind the last colon. */
function lorasOf({ lora = [], loraScaled = [] }: ModelFlags): LoraAdapter[] {
  const listed = (all: string[]): string[] => all.flatMap((list) => list.split(',')).filter((item) => item !== '');
  const scaled = listed(loraScaled).map((item): LoraAdapter => {
    const [, source, number] = /^(.+):([^:]+)$/s.exec(item) ?? [], scale = Number(number);
    if (source === undefined || !Number.isFinite(scale)) throw new QuantletError('ERR_USAGE', `--lora-scaled is "${item}"; expected FILE:SCALE, like style.gguf:0.5`);
    return { source, scale };
  });
  return [...listed(lora).map((source) => ({ source })), ...scaled];
}

/** The checked header of a model, split or not. */
export async function openHeader(path: string): Promise<GGUF> {
  const { gguf, close } = await openModelFiles(platform, path);
  await close();
  return gguf;
}

/** Rejects with ERR_SOURCE where a file cannot be read, naming what it should have been. */
export const unreadable = (what: string, path: string) => (cause: NodeJS.ErrnoException): never => {
  throw new QuantletError('ERR_SOURCE', `cannot read ${what} ${path}: ${whyNot(cause)}`, { cause });
};

/** A file's text. @throws ERR_SOURCE naming what it should have been */
export const readText = (path: string, what: string): Promise<string> => readFile(path, 'utf8').catch(unreadable(what, path));

/** The chat template that the flags give in place of the model's. */
export async function templateOf({ chatTemplate, chatTemplateFile }: Values<'chatTemplate' | 'chatTemplateFile'>): Promise<{ chatTemplate?: string }> {
  const text = chatTemplateFile === undefined ? chatTemplate : await readText(chatTemplateFile, 'the chat template');
  return text === undefined ? {} : { chatTemplate: text };
}

/** What a model writes, as it goes to stdout: a terminal is told of its control characters and does not obey them; files and pipes get them as they are. */
export const forTerminal = (text: string): string => (process.stdout.isTTY ? printableLines(text) : text);

/** \n, \t, \r, \", \', \\, \xHH as llama.cpp reads them in prompts. */
export const unescape = (text: string): string =>
  text.replace(/\\(x[0-9a-fA-F]{2}|[ntr"'\\])/g, (_, c: string) => (c[0] === 'x' ? String.fromCharCode(parseInt(c.slice(1), 16)) : (({ n: '\n', t: '\t', r: '\r' }) as Record<string, string>)[c] ?? c));
