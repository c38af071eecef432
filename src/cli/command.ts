/** What the commands share: their shape, opening a model, texts from files. */
import { loadModel } from '../entry/node.ts';
import { platform, whyNot, whyNoTurbo } from '../entry/node-platform.ts';
import { getString } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { LoraAdapter } from '../engine/lora.ts';
import type { SpeculationOptions } from '../generate/draft/options.ts';
import type { KvType } from '../graph/attention-ops.ts';
import { openModelFiles } from '../io/model-files.ts';
import { QuantletError } from '../errors.ts';
import { packageFile } from '../threads/package-files.ts';
import { printable, printableLines } from '../printable.ts';
import { flagNames, lastOf, loadValues, METADATA_FLAGS, type FlagKey, type LoadValues, type Values } from './flags.ts';
import { resolveModel, type HubFlags } from './hub.ts';
import { metadataOf } from './metadata.ts';
import { progressBar } from './progress.ts';
import { fstatSync, type Stats } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { decodeText } from './text-file.ts';

export interface Command {
  readonly name: string;
  /** The tool of llama.cpp that it stands for, by whose name it can be called too. */
  readonly llama?: string;
  /** `[flags] FILE` and the like. */
  readonly synopsis: string;
  readonly summary: string;
  /** In the order of its help. (Where commands have the same flags in one order, their lists say the same; groups are for flags that belong together.) */
  readonly flags: readonly FlagKey[];
  readonly examples: readonly string[];
  /** What it takes besides flags, where that is one of a few words and no file. */
  readonly words?: readonly string[];
  /** What its help says of flags that have another default elsewhere. */
  readonly defaults?: { readonly [key in FlagKey]?: string };
  /** More of the help, between the flags and the examples. */
  readonly notes?: string;
  /** Resolves to the exit code; the signal aborts on Ctrl-C and SIGTERM. 130: it ended by that. */
  run(argv: readonly string[], signal: AbortSignal): Promise<number>;
}

/** Answers under way may end by themselves for so long after SIGTERM. */
export const DRAIN_MS = 5000;

/** The model that ships with the package. */
const SHIPPED_MODEL_URL = import.meta.url ? new URL('../../models/tiny-stories-q4_0.gguf', import.meta.url) : undefined;
export const shippedModel = (): string => packageFile(SHIPPED_MODEL_URL, 'models/tiny-stories-q4_0.gguf');

interface ModelFlags
  extends HubFlags, LoadValues, Values<(typeof SPECULATION_FLAGS)[number] | (typeof METADATA_FLAGS)[number] | 'lora' | 'loraScaled'> {
  threadsBatch?: number;
  weightsMemory?: string;
  verbose?: boolean;
}

const UNITS = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 } as const;

/** The option of --weights-memory: bytes of `2G`, `512M` and the like. @throws ERR_USAGE */
export function weightsMemoryOf({ weightsMemory: text }: Values<'weightsMemory'>): Pick<LoadOptions, 'weightsMemory'> {
  if (text === undefined) return {};
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)([KMGT]?)$/i.exec(text) ?? [];
  const bytes = Math.floor(Number(digits) * UNITS[unit.toUpperCase() as keyof typeof UNITS]);
  if (bytes >= 1) return { weightsMemory: bytes };
  throw new QuantletError(
    'ERR_USAGE',
    `--weights-memory is ${JSON.stringify(text)}; expected a size above 0: bytes, or 512M, 2G and the like`,
  );
}

/** Flags that say which file: a path, a URL, or one of a repository of the hub. */
export const FILE_FLAGS = ['model', 'hf', 'hfFile', 'hfToken', 'offline'] as const satisfies readonly FlagKey[];

/** Flags that say how a model is read: with which adapters, with which metadata in place of its own. */
export const READING_FLAGS = ['lora', 'loraScaled', ...METADATA_FLAGS] as const satisfies readonly FlagKey[];

/** Flags that say which model. */
export const MODEL_FLAGS = [...FILE_FLAGS, ...READING_FLAGS] as const satisfies readonly FlagKey[];

/** Flags that say how exact it is, and how its memory is used. */
export const COMPUTE_FLAGS = [
  'cacheTypeK',
  'cacheTypeV',
  'cacheRotation',
  'actBits',
  'iqWeights',
  'sparseThreshold',
  'attnHeads',
  'weightsMemory',
  'neuronWindow',
] as const satisfies readonly FlagKey[];

/** Flags that say which of its states conversations can go back to. */
export const CHECKPOINT_FLAGS = ['ctxCheckpoints', 'checkpointMinStep'] as const satisfies readonly FlagKey[];

/** Flags that say how it drafts what it generates. */
export const SPECULATION_FLAGS = [
  'specType',
  'draftModel',
  'draftHf',
  'draftMax',
  'draftMin',
  'draftPMin',
  'draftThreads',
  'draftCacheTypeK',
  'draftCacheTypeV',
  'ngramSimpleN',
  'ngramSimpleM',
  'ngramSimpleMinHits',
  'ngramModMatch',
  'ngramModMin',
  'ngramModMax',
] as const satisfies readonly FlagKey[];

/** The flags with the path of the model that they name, downloaded where it has to be; of the one that ships where they name none. */
export async function located<V extends HubFlags>(values: V, signal: AbortSignal): Promise<Omit<V, 'hf' | 'hfFile'> & { model: string }> {
  const { hf: _, hfFile: __, ...rest } = values;
  return { ...rest, model: (await resolveModel(values, signal)) ?? shippedModel() };
}

/** Loads the model of the flags, with a progress bar on stderr where that is a terminal. */
export async function openModel(values: ModelFlags, signal: AbortSignal, more: LoadOptions = {}): Promise<Model> {
  const { model: path } = await located(values, signal);
  const speculation = await speculationOf(values, signal);
  const bar = progressBar('loading');
  try {
    const model = await loadModel(path, {
      contextLength: 0,
      signal,
      onProgress: ({ loaded, total }) => bar.set(loaded / total),
      turbo: 'auto',
      ...(values.threadsBatch === undefined ? {} : { threads: values.threadsBatch }),
      ...(parseInt(process.env.LLAMA_ATTN_ROT_DISABLE ?? '0') ? { cacheRotation: false } : {}), // read as llama.cpp reads it
      ...loadValues(values),
      ...weightsMemoryOf(values),
      lora: lorasOf(values),
      ...(await metadataOf(values, async () => getString(await openHeader(path), 'general.architecture'))),
      ...(speculation ? { speculation } : {}),
      ...more,
    });
    bar.end();
    if (values.verbose || (values.turbo && !model.turbo))
      process.stderr.write(
        `quantlet: turbo is ${model.turbo ? 'on' : `off: ${values.turbo === false ? 'it was turned off' : whyNoTurbo()}`}\n`,
      );
    for (const warning of model.warnings) process.stderr.write(`quantlet: ${printable(flagNames(warning))}\n`);
    const { iqWeights } = model.internals.engine;
    if (values.verbose && iqWeights) process.stderr.write(`quantlet: weights of IQ1 to IQ3 and TQ1_0 are ${iqWeights} (--iq-weights)\n`);
    return model;
  } finally {
    bar.end();
  }
}

/** What is set of the values, or undefined where nothing is. */
function given<T extends object>(values: T): T | undefined {
  const set = Object.entries(values).filter(([, value]) => value !== undefined);
  return set.length > 0 ? (Object.fromEntries(set) as T) : undefined;
}

/** With -hfd, -md is a file of the repository, as in llama.cpp. */
async function speculationOf(v: ModelFlags, signal: AbortSignal): Promise<SpeculationOptions | undefined> {
  const file = v.draftHf === undefined ? { model: v.draftModel } : { hf: v.draftHf, hfFile: v.draftModel };
  const model = await resolveModel(given({ ...file, hfToken: v.hfToken, offline: v.offline }) ?? {}, signal);
  return given({
    type: v.specType?.split(',') as SpeculationOptions['type'],
    draft: given({
      model,
      nMax: v.draftMax,
      nMin: v.draftMin,
      pMin: v.draftPMin,
      threads: v.draftThreads,
      cacheTypeK: v.draftCacheTypeK as KvType | undefined,
      cacheTypeV: v.draftCacheTypeV as KvType | undefined,
    }),
    ngramSimple: given({ sizeN: v.ngramSimpleN, sizeM: v.ngramSimpleM, minHits: v.ngramSimpleMinHits }),
    ngramMod: given({ nMatch: v.ngramModMatch, nMin: v.ngramModMin, nMax: v.ngramModMax }),
  }) as SpeculationOptions | undefined;
}

/** Lists with commas, as llama.cpp takes them; the scale is behind the last colon. */
function lorasOf({ lora = [], loraScaled = [] }: ModelFlags): LoraAdapter[] {
  const listed = (all: string[]): string[] => all.flatMap((list) => list.split(',')).filter((item) => item !== '');
  const scaled = listed(loraScaled).map((item): LoraAdapter => {
    const [, source, number] = /^(.+):([^:]+)$/s.exec(item) ?? [];
    const scale = Number(number);
    if (source === undefined || !Number.isFinite(scale))
      throw new QuantletError('ERR_USAGE', `--lora-scaled is "${item}"; expected FILE:SCALE, like style.gguf:0.5`);
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
export const unreadable =
  (what: string, path: string) =>
  (cause: NodeJS.ErrnoException): never => {
    throw new QuantletError('ERR_SOURCE', `cannot read ${what} ${path}: ${whyNot(cause)}`, { cause });
  };

/** A file's text, `-` being standard input. @throws ERR_SOURCE naming what it should have been */
export const readText = async (path: string, what: string): Promise<string> =>
  path === '-' ? readStdin() : decodeText(await readFile(path).catch(unreadable(what, path)), `${what} ${path}`);

/** The text of a flag or that of a file without its last line break, whichever flag was given last, as in llama.cpp. */
export async function givenText<T extends 'prompt' | 'message' | 'text' | 'system', F extends 'file' | 'systemFile'>(
  values: Values<T | F>,
  text: T,
  file: F,
  what: string,
): Promise<string | undefined> {
  const given = values as { readonly [key in T | F]?: string };
  return lastOf(values, text, file) === file ? withoutLastBreak(textLines(await readText(given[file]!, what))) : given[text];
}

/**
 * Line breaks as llama.cpp's tools get them, which open such a file as text: on Windows \r\n is \n there.
 * @param platform replaced by tests
 */
export const textLines = (text: string, platform: string = process.platform): string =>
  platform === 'win32' ? text.replaceAll('\r\n', '\n') : text;

/** The text without its last line break, \r\n included. */
export const withoutLastBreak = (text: string): string => text.replace(/\r?\n$/, '');

export async function readStdin(): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return decodeText(Buffer.concat(chunks), 'standard input');
}

/** Bits of a mode, as libuv gives them on Windows too, where Node's isFIFO() is always false. */
const S_IFMT = 0o170000;
const S_IFIFO = 0o010000;

/**
 * A pipe or a file of a shell. Programs that start this one mostly leave a socket there, which may never end; on Windows a pipe, which cannot be told
 * from that of a shell.
 * @param stat replaced by tests
 */
export function isPiped(stat: (fd: number) => Stats = fstatSync): boolean {
  try {
    const input = stat(0);
    return (input.mode & S_IFMT) === S_IFIFO || input.isFile();
  } catch {
    return false; // closed
  }
}

/** Names of standard input where a file is named. */
const STDIN = /^(?:-|\/dev\/(?:stdin|fd\/0)|\/proc\/self\/fd\/0)$/;

/**
 * Says that a pipe beside a text of the flags is not read. Nothing is taken from it, not even to see whether there is anything: `while read` of a shell
 * keeps its own lines there. On Windows a program that starts this one leaves a pipe too, so there nothing is said.
 */
export function tellUnreadPipe(values: object): void {
  const isRead = Object.values(values).some((value) => typeof value === 'string' && STDIN.test(value));
  if (isRead || process.platform === 'win32' || !isPiped()) return;
  process.stderr.write('quantlet: standard input is not read, because a flag gives the text; -f - reads it (or leave that flag out)\n');
}

/** The chat template that the flags give in place of the model's. */
export async function templateOf({
  chatTemplate,
  chatTemplateFile,
}: Values<'chatTemplate' | 'chatTemplateFile'>): Promise<{ chatTemplate?: string }> {
  const text = chatTemplateFile === undefined ? chatTemplate : await readText(chatTemplateFile, 'the chat template');
  return text === undefined ? {} : { chatTemplate: text };
}

/** What a model writes, as it goes to stdout: a terminal is told of its control characters and does not obey them; files and pipes get them as they are. */
export const forTerminal = (text: string): string => (process.stdout.isTTY ? printableLines(text) : text);

/** \n, \t, \r, \", \', \\, \xHH as llama.cpp reads them in prompts. */
export const unescape = (text: string): string =>
  text.replace(/\\(x[0-9a-fA-F]{2}|[ntr"'\\])/g, (_, c: string) =>
    c[0] === 'x' ? String.fromCharCode(parseInt(c.slice(1), 16)) : (({ n: '\n', t: '\t', r: '\r' } as Record<string, string>)[c] ?? c),
  );
