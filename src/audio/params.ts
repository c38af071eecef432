/** Metadata of a projector for sound (`clip.audio.*`), read and checked once. */
import { projectorType } from '../encoder/projector-file.ts';
import type { TransformerParams } from '../encoder/transformer.ts';
import { QuantletError } from '../errors.ts';
import { getCount, getNumber } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';

export interface AudioParams extends TransformerParams {
  readonly nMels: number;
  /** A whole number of `clip.audio.`; `fallback` if missing. */
  count(name: string, fallback?: number): number;
}

const PREFIX = 'clip.audio.';
const MAX_WIDTH = 1 << 16;

/** @throws ERR_MISSING_METADATA, ERR_GGUF_INVALID naming the key; ERR_UNSUPPORTED_ARCH */
export function readAudioParams(gguf: GGUF): AudioParams {
  const count = (name: string, fallback?: number, most = MAX_WIDTH): number => getCount(gguf, PREFIX + name, fallback, 1, most);
  const nEmbd = count('embedding_length');
  const nHead = count('attention.head_count');
  if (nEmbd % nHead !== 0)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `mmproj has ${nHead} heads for ${nEmbd} dimensions of sound; expected a width that the heads divide`,
    );
  return {
    type: projectorType(gguf, 'audio'),
    nEmbd,
    nHead,
    headDim: nEmbd / nHead,
    nLayer: count('block_count', undefined, 4096),
    eps: getNumber(gguf, `${PREFIX}attention.layer_norm_epsilon`),
    act: 'gelu_erf',
    nMels: count('num_mel_bins', undefined, 1024),
    count: (name, fallback) => count(name, fallback),
  };
}
