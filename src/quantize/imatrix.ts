/** Importance matrices: reads, joins and writes files of llama-imatrix. */
import { QuantletError } from '../errors.ts';
import { getCount, getString, getStrings } from '../gguf/metadata.ts';
import { readGGUF } from '../gguf/read.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { invalid } from '../gguf/value.ts';
import { writeGGUF, type WriteValue } from '../gguf/write.ts';
import { tensorFloats } from '../io/model-files.ts';
import type { Bytes } from '../io/source.ts';
import { TYPE } from '../type-traits.ts';

/** Importance weights: how strongly a text uses each input of a matrix. */
export interface Imatrix {
  /**
   * By tensor name: ne[0] mean squared activations for each matrix (expert), one matrix after
   * another.
   */
  readonly values: ReadonlyMap<string, Float32Array>;
  readonly datasets: readonly string[];
  readonly chunkCount: number;
}

/** Sums over the inputs of a tensor. */
export interface InputSums {
  /** ne[0] sums of squares for each matrix (expert), one matrix after another. */
  readonly sums: Float32Array;
  /** Number of inputs summed, for each matrix. */
  readonly counts: Float32Array;
}

/** An importance matrix in the form of files. */
export interface ImatrixSums {
  /** By tensor name. */
  readonly entries: ReadonlyMap<string, InputSums>;
  readonly datasets: readonly string[];
  readonly chunkCount: number;
}

const SUMS = '.in_sum2';
const COUNTS = '.counts';

const readFloats = async (bytes: Bytes, info: TensorInfo, signal?: AbortSignal): Promise<Float32Array> => {
  if (info.type !== TYPE.f32) throw invalid(`imatrix tensor "${info.name}" is of type ${info.type.name}; expected f32`);
  return tensorFloats([bytes], info, signal);
};

const open = async (bytes: Bytes, signal?: AbortSignal): Promise<GGUF> => {
  try {
    return await readGGUF(bytes, { signal });
  } catch (error) {
    if (!(error instanceof QuantletError) || error.code !== 'ERR_GGUF_MAGIC') throw error;
    throw new QuantletError(
      'ERR_GGUF_MAGIC',
      `the imatrix is not a GGUF file; expected one that llama-imatrix wrote with its default --output-format gguf: convert an old .dat file with llama-imatrix --in-file OLD --output-format gguf -o NEW (${error.message})`,
    );
  }
};

const mustBeFinite = (name: string, values: Float32Array, what = 'input'): Float32Array => {
  const i = values.findIndex((x) => !Number.isFinite(x));
  if (i >= 0) throw invalid(`the imatrix has ${values[i]} for ${what} ${i} of "${name}"; expected a finite number: measure it again`);
  return values;
};

/**
 * Reads a file of llama-imatrix or writeImatrix.
 *
 * @throws QuantletError ERR_GGUF_MAGIC for the old format; ERR_GGUF_INVALID if it is not an
 * imatrix, tensors do not match or a value is not finite; and as readGGUF
 */
export const readImatrixSums = async (bytes: Bytes, signal?: AbortSignal): Promise<ImatrixSums> => {
  const gguf = await open(bytes, signal);
  const kind = getString(gguf, 'general.type', 'model');
  if (kind !== 'imatrix')
    throw invalid(`general.type of the imatrix file is "${kind}"; expected "imatrix": this is another kind of GGUF file`);
  const entries = new Map<string, InputSums>();
  for (const sums of gguf.tensors.values()) {
    if (!sums.name.endsWith(SUMS)) continue;
    const name = sums.name.slice(0, -SUMS.length);
    const counts = gguf.tensors.get(name + COUNTS);
    if (!counts) throw invalid(`the imatrix has "${sums.name}" but no "${name}${COUNTS}"; expected both`);
    const nMatrices = counts.byteLength / 4;
    if (counts.ne[0] !== 1 || sums.ne[1] * sums.ne[2] * sums.ne[3] !== nMatrices) {
      throw invalid(
        `the imatrix has ${nMatrices} counts (ne[0] ${counts.ne[0]}) for "${sums.name}"; expected one for each of its ${sums.ne[1] * sums.ne[2] * sums.ne[3]} rows`,
      );
    }
    entries.set(name, {
      sums: mustBeFinite(name, await readFloats(bytes, sums, signal)),
      counts: mustBeFinite(name, await readFloats(bytes, counts, signal), 'count'),
    });
  }
  if (entries.size === 0) throw invalid(`the imatrix has no importance weights; expected tensors named *${SUMS} and *${COUNTS}`);
  return { entries, datasets: getStrings(gguf, 'imatrix.datasets', []), chunkCount: getCount(gguf, 'imatrix.chunk_count', 0) };
};

/**
 * Divides sums by their counts as llama-quantize does (in f32). An expert that was never used has
 * no sums; all its inputs get weight 1.
 */
const means = (name: string, { sums, counts }: InputSums): Float32Array => {
  const ne0 = sums.length / counts.length;
  return mustBeFinite(
    name,
    sums.map((sum, i) => {
      const n = counts[Math.floor(i / ne0)];
      return n > 0 ? sum / n : 1;
    }),
  );
};

/**
 * Reads the importance weights of a file.
 * @throws as readImatrixSums
 */
export const readImatrix = async (bytes: Bytes, signal?: AbortSignal): Promise<Imatrix> => {
  const { entries, ...rest } = await readImatrixSums(bytes, signal);
  return { ...rest, values: new Map([...entries].map(([name, entry]) => [name, means(name, entry)])) };
};

const added = (a: Float32Array, b: Float32Array): Float32Array => a.map((x, i) => x + b[i]);

/**
 * Joins imatrices, as if their texts had been measured one after another.
 *
 * @param nCtx tokens of a window, from which the number of windows is computed
 * @throws QuantletError ERR_INVALID_ARGUMENT if they are of different models
 */
export const joinImatrices = (all: readonly Omit<ImatrixSums, 'chunkCount'>[], nCtx: number): ImatrixSums => {
  const entries = new Map<string, InputSums>();
  let most = 0;
  for (const [name, more] of all.flatMap((one) => [...one.entries])) {
    const known = entries.get(name);
    if (known && (known.sums.length !== more.sums.length || known.counts.length !== more.counts.length))
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `the imatrices have ${known.sums.length} and ${more.sums.length} sums, ${known.counts.length} and ${more.counts.length} counts for "${name}"; expected the same numbers: they belong to different models`,
      );
    const both = known ? { sums: mustBeFinite(name, added(known.sums, more.sums)), counts: added(known.counts, more.counts) } : more;
    entries.set(name, both);
    most = both.counts.reduce((a, b) => Math.max(a, b), most);
  }
  return { entries, datasets: all.flatMap((one) => one.datasets), chunkCount: Math.floor(most / nCtx) };
};

const sorted = (entries: ImatrixSums['entries']): (readonly [name: string, sums: InputSums])[] =>
  [...entries].sort(([a], [b]) => (a < b ? -1 : 1));

/**
 * A file as llama-imatrix writes it.
 * @param nCtx tokens of a window
 */
export const writeImatrix = ({ entries, datasets, chunkCount }: ImatrixSums, nCtx: number): Uint8Array => {
  const bytesOf = (values: Float32Array): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const shape = (ne0: number, n: number): number[] => (n === 1 ? [ne0] : [ne0, n]);
  return writeGGUF(
    new Map<string, WriteValue>([
      ['general.type', { type: 'str', value: 'imatrix' }],
      ['imatrix.datasets', { type: 'arr[str]', value: [...datasets] }],
      ['imatrix.chunk_count', { type: 'u32', value: chunkCount }],
      ['imatrix.chunk_size', { type: 'u32', value: nCtx }],
    ]),
    sorted(entries).flatMap(([name, { sums, counts }]) => [
      { name: name + SUMS, type: TYPE.f32, ne: shape(sums.length / counts.length, counts.length), data: bytesOf(sums) },
      { name: name + COUNTS, type: TYPE.f32, ne: shape(1, counts.length), data: bytesOf(counts) },
    ]),
  );
};

/**
 * A file in the former format of llama-imatrix (`--output-format dat`): mean squares times windows,
 * the number of windows, the last text's name.
 */
export const writeImatrixDat = ({ entries, datasets, chunkCount }: ImatrixSums, nCtx: number): Uint8Array => {
  const used = sorted(entries).filter(([, { counts }]) => counts.some((n) => n > 0));
  const parts: Uint8Array[] = [];
  const put = (values: Float32Array | Int32Array): void => void parts.push(new Uint8Array(values.buffer));
  const text = (value: string): void => {
    const encoded = new TextEncoder().encode(value);
    put(Int32Array.of(encoded.length));
    parts.push(encoded);
  };
  put(Int32Array.of(used.length));
  for (const [name, entry] of used) {
    const windows = Math.ceil(entry.counts.reduce((a, b) => Math.max(a, b)) / nCtx);
    text(name);
    put(Int32Array.of(windows, entry.sums.length));
    put(means(name, entry).map((x) => x * windows));
  }
  put(Int32Array.of(chunkCount));
  text(datasets.at(-1) ?? '');
  const file = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  parts.reduce((at, part) => (file.set(part, at), at + part.length), 0);
  return file;
};
