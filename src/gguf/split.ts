/** Models that are split into several files (llama.cpp's gguf-split). */
import { QuantletError } from '../errors.ts';
import type { Bytes } from '../io/source.ts';
import { getCount } from './metadata.ts';
import { readGGUF } from './read.ts';
import type { GGUF, TensorInfo } from './types.ts';
import { invalid } from './value.ts';

/** Names of the parts, as given by llama.cpp's gguf-split: `NAME-00001-of-00003.gguf`. */
const PART_NAME = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s;

/** A part's name, parsed. */
export interface SplitName {
  /** From 1. */
  readonly no: number;
  readonly count: number;
  /** The name of part `no`, from 1. */
  part(no: number): string;
}

/**
 * Parses a part's name; undefined if it does not have that form. Makes nothing for each part,
 * because a name may claim 99,999 parts.
 */
export const splitName = (name: string): SplitName | undefined => {
  const match = PART_NAME.exec(name);
  if (!match || Number(match[3]) === 0) return undefined;
  return { no: Number(match[2]), count: Number(match[3]), part: (no) => `${match[1]}-${String(no).padStart(5, '0')}-of-${match[3]}.gguf` };
};

/**
 * Names of all parts of a split model, from the name of any part; undefined if the name does not
 * have that form.
 */
export const splitNames = (name: string): readonly string[] | undefined => {
  const split = splitName(name);
  return split && Array.from({ length: split.count }, (_, i) => split.part(i + 1));
};

/** Number of files that a model claims to consist of: 1 without `split.count`. */
export const splitCount = (gguf: GGUF): number => getCount(gguf, 'split.count', 1, 1, 65535);

interface ReadOptions {
  readonly signal?: AbortSignal;
}

const checkPart = (part: GGUF, i: number, first: GGUF, count: number): void => {
  const found = splitCount(part);
  if (found !== count)
    throw invalid(`file ${i + 1} says that its model has ${found} parts, the first file says ${count}: it is a part of another model`);
  const no = getCount(part, 'split.no', 0, 0, 65535);
  if (no !== i) throw invalid(`file ${i + 1} is part ${no + 1} of ${count}; expected part ${i + 1}: give all parts, each once, in order`);
  const total = getCount(first, 'split.tensors.count');
  const partTotal = getCount(part, 'split.tensors.count');
  if (partTotal !== total)
    throw invalid(
      `file ${i + 1} belongs to a model of ${partTotal} tensors, the first file to one of ${total}: it is a part of another model`,
    );
  const [a, b] = [first, part].map((g) => g.metadata.get('general.architecture'));
  if (b !== undefined && b !== a)
    throw invalid(`file ${i + 1} is of architecture ${String(b)}, the first file of ${String(a)}: it is a part of another model`);
};

/**
 * Reads the files of a split model as one GGUF: the first file's metadata, and all files' tensors,
 * each with its `part`. One file that is not split is simply read.
 *
 * @param parts every part, in order
 * @throws QuantletError ERR_SOURCE if parts are missing; ERR_GGUF_INVALID if they are out of order,
 * of another model, or inconsistent; and as readGGUF
 */
export const readSplitGGUF = async (parts: readonly Bytes[], options: ReadOptions = {}): Promise<GGUF> => {
  if (parts.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'no files were given; expected at least one GGUF file');
  const first = await readGGUF(parts[0], options);
  const count = splitCount(first);
  if (count === 1 && parts.length === 1) return first;
  if (count !== parts.length) {
    const meaning = count > parts.length ? 'give all of them, in order, or the name of the first' : 'give the parts of one model only';
    throw new QuantletError(
      'ERR_SOURCE',
      `the first file says that its model has ${count} ${count === 1 ? 'part' : 'parts'}, but ${parts.length} were given: ${meaning}`,
    );
  }
  const tensors = new Map<string, TensorInfo>();
  let byteLength = 0;
  for (let i = 0; i < count; i++) {
    const part = i === 0 ? first : await readGGUF(parts[i], options);
    checkPart(part, i, first, count);
    byteLength += part.byteLength;
    for (const [name, info] of part.tensors) {
      const other = tensors.get(name);
      if (other)
        throw invalid(
          `tensor "${name}" is in file ${other.part + 1} and in file ${i + 1}; expected it in one of them: the files are not the parts of one model`,
        );
      tensors.set(name, { ...info, part: i });
    }
  }
  const total = getCount(first, 'split.tensors.count');
  if (tensors.size !== total)
    throw invalid(
      `the ${count} files have ${tensors.size} tensors; expected ${total} (split.tensors.count): a part is damaged or of another model`,
    );
  return { ...first, tensors, byteLength };
};

/** A model's header, and its files in the order of the tensors' `part`. */
export interface OpenedGGUF {
  readonly gguf: GGUF;
  readonly parts: readonly Bytes[];
}

/**
 * Opens a model that may be split, from its first file. The other parts are found by name.
 *
 * @param first the opened file
 * @param name its name or path
 * @param open opens a name or path of that form
 * @throws ERR_SOURCE if parts cannot be opened; and as readSplitGGUF
 */
export const openSplitGGUF = async (
  first: Bytes,
  name: string,
  open: (name: string) => Promise<Bytes>,
  options: ReadOptions = {},
): Promise<OpenedGGUF> => {
  const gguf = await readGGUF(first, options);
  const count = splitCount(gguf);
  if (count === 1) return { gguf, parts: [first] };
  const no = getCount(gguf, 'split.no', 0, 0, 65535);
  const split = splitName(name);
  if (no !== 0)
    throw new QuantletError(
      'ERR_SOURCE',
      `this file is part ${no + 1} of ${count} of a split model; expected the first part: give ${split?.part(1) ?? 'that one'}`,
    );
  if (split?.count !== count) {
    throw new QuantletError(
      'ERR_SOURCE',
      `this is the first of ${count} parts of a split model, but its name "${name}" does not give the names of the others; expected NAME-00001-of-${String(count).padStart(5, '0')}.gguf: rename the files, or give all parts as a list`,
    );
  }
  const parts = [first];
  for (let i = 1; i < count; i++) {
    const partName = split.part(i + 1);
    try {
      parts.push(await open(partName));
    } catch (error) {
      options.signal?.throwIfAborted();
      const reason = error instanceof Error ? error.message : String(error);
      throw new QuantletError('ERR_SOURCE', `part ${i + 1} of ${count} of the model, "${partName}", cannot be opened: ${reason}`, {
        cause: error,
      });
    }
  }
  return { gguf: await readSplitGGUF(parts, options), parts };
};
