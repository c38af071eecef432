/** quantlet gguf-split: splits a model into several files or merges them, like llama-gguf-split. */
import { stat } from 'node:fs/promises';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { splitNames } from '../gguf/split.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { alignUp } from '../align.ts';
import { DEFAULT_ALIGNMENT } from '../gguf/types.ts';
import { layoutGGUF, type GGUFLayout, type WriteValue } from '../gguf/write.ts';
import { openModelFiles, type ModelFiles } from '../io/model-files.ts';
import type { Command } from './command.ts';
import type { FlagKey, Values } from './flags.ts';
import { parseFlags } from './parse-flags.ts';
import { checkOutput, tell } from './output.ts';
import { type WriteAt } from '../tools/new-file.ts';
import { copyTensor, metadataOf, writeNewGGUF } from '../tools/new-gguf.ts';
import { progressBar } from './progress.ts';
import { bytesText } from '../bytes-text.ts';

const KEYS = [
  'split',
  'merge',
  'splitMaxTensors',
  'splitMaxSize',
  'noTensorFirstSplit',
  'dryRun',
  'help',
] as const satisfies readonly FlagKey[];
type SplitFlags = Values<(typeof KEYS)[number]>;

/** Default number of tensors per file, as in llama-gguf-split. */
const MAX_TENSORS = 128;

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);

/** A file to be written: its tensors and their offsets. */
interface NewFile {
  readonly name: string;
  readonly tensors: readonly TensorInfo[];
  readonly layout: GGUFLayout;
}

/** Parses `2G` and `500M`, which are powers of ten. */
function bytesOf(text: string): number {
  const [, n, unit] = /^([1-9]\d*)([MG])$/.exec(text) ?? [];
  if (n === undefined) throw usage(`--split-max-size is "${text}"; expected a whole number with M or G, like 2G`);
  return Number(n) * (unit === 'M' ? 1e6 : 1e9);
}

/** The tensors of each file. */
function groupsOf(gguf: GGUF, { splitMaxTensors = MAX_TENSORS, splitMaxSize, noTensorFirstSplit }: SplitFlags): TensorInfo[][] {
  const most = splitMaxSize === undefined ? Infinity : bytesOf(splitMaxSize);
  const groups: TensorInfo[][] = noTensorFirstSplit ? [[], []] : [[]];
  let bytes = 0;
  for (const [i, tensor] of [...gguf.tensors.values()].entries()) {
    const size = alignUp(tensor.byteLength, DEFAULT_ALIGNMENT);
    const next = splitMaxSize === undefined ? i > 0 && i % splitMaxTensors === 0 : bytes + size > most && bytes > 0;
    if (next) groups.push([]);
    bytes = next ? size : bytes + size;
    groups.at(-1)!.push(tensor);
  }
  return groups;
}

const layoutOf = (metadata: ReadonlyMap<string, WriteValue>, tensors: readonly TensorInfo[]): GGUFLayout =>
  layoutGGUF(
    metadata,
    tensors.map(({ name, type, ne, nDims }) => ({ name, type, ne: ne.slice(0, nDims) })),
  );

async function plan(model: ModelFiles, output: string, values: SplitFlags, signal: AbortSignal): Promise<NewFile[]> {
  const whole = await metadataOf(model, signal);
  const all = [...model.gguf.tensors.values()];
  if (values.merge) return [{ name: output, tensors: all, layout: layoutOf(whole, all) }];
  const groups = groupsOf(model.gguf, values);
  const number = (n: number): string => String(n).padStart(5, '0');
  return groups.map((tensors, i) => {
    const metadata = new Map<string, WriteValue>(i === 0 ? whole : []);
    metadata.set('split.no', { type: 'u16', value: i });
    metadata.set('split.count', { type: 'u16', value: groups.length });
    metadata.set('split.tensors.count', { type: 'i32', value: all.length });
    return { name: `${output}-${number(i + 1)}-of-${number(groups.length)}.gguf`, tensors, layout: layoutOf(metadata, tensors) };
  });
}

async function writeFile(
  { name, tensors, layout }: NewFile,
  model: ModelFiles,
  onBytes: (n: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const fill = async (write: WriteAt): Promise<void> => {
    for (const [i, tensor] of tensors.entries()) await copyTensor(write, model, tensor, layout.tensors[i].offset, signal, onBytes);
  };
  await writeNewGGUF(name, layout, fill, signal);
}

export const ggufSplit: Command = {
  name: 'gguf-split',
  llama: 'llama-gguf-split',
  synopsis: '[--split|--merge] [flags] IN.gguf OUT',
  summary: 'split a model into several files, or join its parts',
  flags: KEYS,
  notes: 'To split, OUT is what the names of the parts begin with: OUT-00001-of-00003.gguf. To merge, IN.gguf is the first part.',
  examples: [
    'quantlet gguf-split --split-max-size 2G model.gguf model',
    'quantlet gguf-split --merge model-00001-of-00003.gguf model.gguf',
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS, 'gguf-split');
    const [input, output, ...more] = positionals;
    if (output === undefined || more.length > 0) throw usage(`gguf-split takes an input and an output, not ${positionals.length} files`);
    const { splitMaxTensors } = values;
    if (values.split && values.merge) throw usage('--split and --merge exclude each other; give one');
    if (splitMaxTensors !== undefined && values.splitMaxSize !== undefined)
      throw usage('--split-max-tensors and --split-max-size exclude each other; give one');
    if (splitMaxTensors !== undefined && splitMaxTensors < 1) throw usage(`--split-max-tensors is ${splitMaxTensors}; expected at least 1`);
    if (values.merge && (await stat(output).catch(() => undefined))) throw usage(`${output} already exists; expected a new file`);
    const model = await openModelFiles(platform, input, signal);
    const bar = progressBar('writing');
    try {
      const files = await plan(model, output, values, signal);
      const total = files.reduce((sum, { layout }) => sum + layout.byteLength, 0);
      let done = 0;
      if (!values.dryRun) for (const { name } of files) await checkOutput(name, splitNames(input) ?? [input]);
      for (const file of files) {
        if (!values.dryRun) {
          await writeFile(file, model, (n) => bar.set((done += n) / total), signal);
          bar.end();
        }
        tell(`${file.name}: ${file.tensors.length} tensors, ${bytesText(file.layout.byteLength)}\n`);
      }
      return 0;
    } finally {
      bar.end();
      await model.close();
    }
  },
};
