/** Importance matrices of llama-imatrix. */
import { QuantletError } from '../errors.ts';
import { getCount, getString, getStrings } from '../gguf/metadata.ts';
import { readGGUF } from '../gguf/read.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { invalid } from '../gguf/value.ts';
import type { Bytes } from '../io/source.ts';
import { TYPE } from '../type-traits.ts';

/** Importance weights: how much each input of a matrix was used over a text. */
export interface Imatrix {
  /** By tensor name: ne[0] mean squared activations for each of its matrices (experts), one matrix after another. */
  readonly values: ReadonlyMap<string, Float32Array>;
  readonly datasets: readonly string[];
  readonly chunkCount: number;
}

const SUMS = '.in_sum2';
const COUNTS = '.counts';

const readFloats = async (bytes: Bytes, info: TensorInfo, signal?: AbortSignal): Promise<Float32Array> => {
  if (info.type !== TYPE.f32) throw invalid(`imatrix tensor "${info.name}" is of type ${info.type.name}, expected f32`);
  const data = await bytes.read(info.offset, info.offset + info.byteLength, signal);
  return new Float32Array(data.slice().buffer);
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

/**
 * Reads an importance matrix that llama-imatrix wrote: sums of squared activations, divided here by their counts as llama-quantize does it (in f32).
 *
 * @throws QuantletError ERR_GGUF_MAGIC for the old format, ERR_GGUF_INVALID where it is no imatrix, tensors do not fit together or a value is not finite; and as readGGUF
 */
export const readImatrix = async (bytes: Bytes, signal?: AbortSignal): Promise<Imatrix> => {
  const gguf = await open(bytes, signal);
  const kind = getString(gguf, 'general.type', 'model');
  if (kind !== 'imatrix')
    throw invalid(`general.type of the imatrix file is "${kind}", expected "imatrix": this is another kind of GGUF file`);
  const values = new Map<string, Float32Array>();
  for (const sums of gguf.tensors.values()) {
    if (!sums.name.endsWith(SUMS)) continue;
    const name = sums.name.slice(0, -SUMS.length);
    const counts = gguf.tensors.get(name + COUNTS);
    if (!counts) throw invalid(`the imatrix has "${sums.name}" but no "${name}${COUNTS}", expected both`);
    const nMatrices = counts.byteLength / 4;
    if (counts.ne[0] !== 1 || sums.ne[1] * sums.ne[2] * sums.ne[3] !== nMatrices) {
      throw invalid(
        `the imatrix has ${nMatrices} counts (ne[0] ${counts.ne[0]}) for "${sums.name}", expected one for each of its ${sums.ne[1] * sums.ne[2] * sums.ne[3]} rows`,
      );
    }
    const mean = await readFloats(bytes, sums, signal);
    const count = await readFloats(bytes, counts, signal);
    for (let i = 0; i < mean.length; i++) {
      const n = count[Math.floor(i / sums.ne[0])];
      // An expert that was never used has no sums: all its inputs get the same weight.
      mean[i] = n > 0 ? mean[i] / n : 1;
      if (!Number.isFinite(mean[i]))
        throw invalid(`the imatrix has ${mean[i]} for input ${i} of "${name}", expected a finite number: measure it again`);
    }
    values.set(name, mean);
  }
  if (values.size === 0) throw invalid(`the imatrix holds no importance weights, expected tensors named *${SUMS} and *${COUNTS}`);
  return { values, datasets: getStrings(gguf, 'imatrix.datasets', []), chunkCount: getCount(gguf, 'imatrix.chunk_count', 0) };
};
