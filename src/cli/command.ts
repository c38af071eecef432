/** Shared by the commands: their interface, opening a model, reading texts. */
import { interrupt } from './interrupt.ts';
import { loadModel } from '../entry/node.ts';
import { platform, unreadable, whyNoTurbo } from '../entry/node-platform.ts';
import { getString } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { LoraAdapter } from '../plan/lora.ts';
import type { SpeculationOptions } from '../generate/draft/options.ts';
import type { KvType } from '../graph/attention-ops.ts';
import { openModelFiles } from '../io/model-files.ts';
import { QuantletError } from '../errors.ts';
import { packageFile } from '../threads/package-files.ts';
import { printable, printableLines } from '../printable.ts';
import { flagNames, lastOf, loadValues, METADATA_FLAGS, type FlagKey, type LoadValues, type Values } from './flags.ts';
import { resolveFiles, resolveModel, type HubFlags } from './hub.ts';
import { metadataOf } from './metadata.ts';
import { progressBar } from './progress.ts';
import { fstatSync, type Stats } from 'node:fs';
import { readAll, readWhole } from '../tools/read-file.ts';
import { decodeText } from './text-file.ts';

export interface Command {
  readonly name: string;
  /** The llama.cpp tool that this command replaces. The command also runs under that name. */
  readonly llama?: string;
  /** Other tools of llama.cpp that it replaces. */
  readonly alsoLlama?: readonly string[];
  /** For example `[flags] FILE`. */
  readonly synopsis: string;
  readonly summary: string;
  /**
   * In the order of the help. Commands with the same flags in one order repeat the list; named
   * groups are only for flags that belong together.
   */
  readonly flags: readonly FlagKey[];
  readonly examples: readonly string[];
  /** Positional arguments, if these are a few fixed words instead of files. */
  readonly words?: readonly string[];
  /** Default values in the help that differ from other commands. */
  readonly defaults?: { readonly [key in FlagKey]?: string };
  /** Help text between the flags and the examples. */
  readonly notes?: string;
  /**
   * Resolves to the exit code. The signal aborts on Ctrl-C and SIGTERM. The code 130 means that the
   * signal ended the command.
   */
  run(argv: readonly string[], signal: AbortSignal): Promise<number>;
}

/** Time that running answers have to finish after SIGTERM. */
export const DRAIN_MS = 5000;

/** The model that ships with the package. */
const SHIPPED_MODEL_URL = import.meta.url ? new URL('../../models/tiny-stories-q4_0.gguf', import.meta.url) : undefined;
export const shippedModel = (): string => packageFile(SHIPPED_MODEL_URL, 'models/tiny-stories-q4_0.gguf');

interface ModelFlags
  extends HubFlags, LoadValues, Values<(typeof SPECULATION_FLAGS)[number] | (typeof METADATA_FLAGS)[number] | 'lora' | 'loraScaled'> {
  threadsBatch?: number;
  weightsMemory?: string;
  mmprojAuto?: boolean | undefined;
  verbose?: boolean;
}

const UNITS = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 } as const;

/**
 * Parses --weights-memory (bytes, `512M`, `2G`) into the option of loadModel.
 * @throws ERR_USAGE
 */
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

/** Flags that name the file: a path, a URL or a file in a hub repository. */
export const FILE_FLAGS = ['model', 'hf', 'hfFile', 'hfToken', 'offline'] as const satisfies readonly FlagKey[];

/** Flags that change the model as it is read: adapters and metadata overrides. */
export const READING_FLAGS = ['lora', 'loraScaled', ...METADATA_FLAGS] as const satisfies readonly FlagKey[];

/** Flags that name the model. */
export const MODEL_FLAGS = [...FILE_FLAGS, ...READING_FLAGS] as const satisfies readonly FlagKey[];

/** Flags for precision and memory use. */
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

/** Flags for models that see images. */
export const VISION_FLAGS = ['mmproj', 'mmprojAuto', 'imageMinTokens', 'imageMaxTokens'] as const satisfies readonly FlagKey[];

/** Flags for state checkpoints, which let a conversation go back to an earlier token. */
export const CHECKPOINT_FLAGS = ['ctxCheckpoints', 'checkpointMinStep'] as const satisfies readonly FlagKey[];

/** Flags for speculative decoding. */
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

/**
 * Replaces the flags that name a model by its local path, after a download if needed. Without such
 * flags this is the model that ships with the package.
 */
export async function located<V extends HubFlags>(values: V, signal: AbortSignal): Promise<Omit<V, 'hf' | 'hfFile'> & { model: string }> {
  const { hf: _, hfFile: __, ...rest } = values;
  return { ...rest, model: (await resolveModel(values, signal)) ?? shippedModel() };
}

/** Loads the model that the flags name, with a progress bar if stderr is a terminal. */
export async function openModel(values: ModelFlags, signal: AbortSignal, more: LoadOptions = {}): Promise<Model> {
  const { model: path = shippedModel(), mmproj } = await resolveFiles(values, signal);
  const speculation = await speculationOf(values, signal);
  const bar = progressBar('loading');
  try {
    const model = await loadModel(path, {
      contextLength: 0,
      signal,
      onProgress: ({ loaded, total }) => bar.set(loaded / total),
      turbo: 'auto',
      ...(values.threadsBatch === undefined ? {} : { threads: values.threadsBatch }),
      ...(parseInt(process.env.LLAMA_ATTN_ROT_DISABLE ?? '0') ? { cacheRotation: false } : {}), // parsed as llama.cpp does
      ...loadValues(values),
      ...(mmproj === undefined ? {} : { mmproj }),
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

/** The values that are set; undefined if none is. */
function given<T extends object>(values: T): T | undefined {
  const set = Object.entries(values).filter(([, value]) => value !== undefined);
  return set.length > 0 ? (Object.fromEntries(set) as T) : undefined;
}

/**
 * Options for speculative decoding. With -hfd, -md names a file of the repository, as in llama.cpp.
 */
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

/**
 * Adapters from comma-separated lists, as in llama.cpp. In --lora-scaled the scale follows the last
 * colon.
 */
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

/** Reads and checks the header of a model, split or not. */
export async function openHeader(path: string): Promise<GGUF> {
  const { gguf, close } = await openModelFiles(platform, path);
  await close();
  return gguf;
}

/**
 * Reads a text file; `-` is standard input.
 * @throws ERR_SOURCE saying what the file was read as
 */
export const readText = async (path: string, what: string): Promise<string> =>
  path === '-' ? readStdin() : decodeText(await readWhole(path, interrupt.signal).catch(unreadable(what, path)), `${what} ${path}`);

/**
 * The text of a flag, or of a file without its last line break. The flag given last wins, as in
 * llama.cpp.
 */
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
 * Converts line breaks as llama.cpp's tools do, which open these files in text mode: on Windows
 * \r\n becomes \n.
 * @param platform replaced by tests
 */
export const textLines = (text: string, platform: string = process.platform): string =>
  platform === 'win32' ? text.replaceAll('\r\n', '\n') : text;

/** Removes the last line break, \r\n included. */
export const withoutLastBreak = (text: string): string => text.replace(/\r?\n$/, '');

export async function readStdin(): Promise<string> {
  return decodeText(await readAll(process.stdin, interrupt.signal), 'standard input');
}

/**
 * Mode bits for pipes. libuv sets these bits on Windows too, where Node's isFIFO() is always false.
 */
const S_IFMT = 0o170000;
const S_IFIFO = 0o010000;

/**
 * True if standard input is a pipe or a file. Programs that start this one usually leave a socket
 * there, which may never end. On Windows they leave a pipe, which looks like a pipe of the shell.
 * @param stat replaced by tests
 */
export function isPiped(stat: (fd: number) => Stats = fstatSync): boolean {
  try {
    const input = stat(0);
    return (input.mode & S_IFMT) === S_IFIFO || input.isFile();
  } catch {
    return false; // stdin is closed
  }
}

/** Names of standard input for flags that take a file. */
const STDIN = /^(?:-|\/dev\/(?:stdin|fd\/0)|\/proc\/self\/fd\/0)$/;

/**
 * Warns that piped input is ignored because a flag gives the text. Reads nothing, not even to test
 * for data, because a shell's `while read` keeps its remaining lines there. No warning on Windows,
 * where programs that start this one leave a pipe too.
 */
export function tellUnreadPipe(values: object): void {
  const isRead = Object.values(values).some((value) => typeof value === 'string' && STDIN.test(value));
  if (isRead || process.platform === 'win32' || !isPiped()) return;
  process.stderr.write(
    'quantlet: standard input is not read, because a flag gives the text; use -f - to read it, or leave that flag out\n',
  );
}

/** The chat template from the flags, which replaces the model's. */
export async function templateOf({
  chatTemplate,
  chatTemplateFile,
}: Values<'chatTemplate' | 'chatTemplateFile'>): Promise<{ chatTemplate?: string }> {
  const text = chatTemplateFile === undefined ? chatTemplate : await readText(chatTemplateFile, 'the chat template');
  return text === undefined ? {} : { chatTemplate: text };
}

/**
 * Model output for stdout. Control characters are escaped on a terminal and kept in files and
 * pipes.
 */
export const forTerminal = (text: string): string => (process.stdout.isTTY ? printableLines(text) : text);

/** Replaces \n, \t, \r, \", \', \\ and \xHH, as llama.cpp does in prompts. */
export const unescape = (text: string): string =>
  text.replace(/\\(x[0-9a-fA-F]{2}|[ntr"'\\])/g, (_, c: string) =>
    c[0] === 'x' ? String.fromCharCode(parseInt(c.slice(1), 16)) : (({ n: '\n', t: '\t', r: '\r' } as Record<string, string>)[c] ?? c),
  );
