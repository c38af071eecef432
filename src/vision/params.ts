/** Metadata of a projector file (`clip.vision.*`), read and checked once. */
import { projectorType } from '../encoder/projector-file.ts';
import type { TransformerParams } from '../encoder/transformer.ts';
import { QuantletError } from '../errors.ts';
import { getBool, getCount, getNumber, getNumbers } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';

export interface VisionParams extends TransformerParams {
  readonly gguf: GGUF;
  readonly imageSize: number;
  readonly patch: number;
  /** Mean and deviation of each channel. */
  readonly mean: readonly number[];
  readonly std: readonly number[];
  /** A whole number of `clip.vision.`; undefined or `fallback` if missing. */
  count(name: string, fallback?: number): number;
  numbers(name: string): readonly number[] | undefined;
}

/** Largest sizes that are taken for real. */
const MAX_IMAGE = 8192;
const MAX_WIDTH = 1 << 16;

const PREFIX = 'clip.vision.';

/** @throws ERR_MISSING_METADATA, ERR_GGUF_INVALID naming the key */
export function readVisionParams(gguf: GGUF): VisionParams {
  const count = (name: string, fallback?: number, least = 1, most = MAX_WIDTH): number =>
    getCount(gguf, PREFIX + name, fallback, least, most);
  const numbers = (name: string): readonly number[] | undefined =>
    gguf.metadata.has(PREFIX + name) ? Array.from(getNumbers(gguf, PREFIX + name)) : undefined;
  const channels = (name: string): readonly number[] => {
    const values = numbers(name) ?? Array.from(getNumbers(gguf, PREFIX + name));
    if (values.length !== 3 || !values.every(Number.isFinite))
      throw new QuantletError('ERR_GGUF_INVALID', `metadata "${PREFIX}${name}" is [${values.join(', ')}]; expected three numbers`);
    return values;
  };
  const nEmbd = count('embedding_length');
  const nHead = count('attention.head_count');
  const headDim = count('attention.head_dim', Math.floor(nEmbd / nHead));
  if (headDim * nHead !== nEmbd || count('attention.head_count_kv', nHead) !== nHead)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `mmproj has ${nHead} heads of ${headDim} for ${nEmbd} dimensions and ${count('attention.head_count_kv', nHead)} KV heads, which quantlet does not run yet`,
    );
  const imageSize = count('image_size', undefined, 1, MAX_IMAGE);
  const patch = count('patch_size', undefined, 1, imageSize);
  return {
    gguf,
    type: projectorType(gguf, 'vision'),
    imageSize,
    patch,
    nEmbd,
    nHead,
    headDim,
    nLayer: count('block_count', undefined, 1, 4096),
    eps: getNumber(gguf, `${PREFIX}attention.layer_norm_epsilon`),
    act: getBool(gguf, 'clip.use_gelu', false) ? 'gelu' : getBool(gguf, 'clip.use_silu', false) ? 'silu' : 'gelu_quick',
    mean: channels('image_mean'),
    std: channels('image_std'),
    count: (name, fallback) => count(name, fallback),
    numbers,
  };
}
