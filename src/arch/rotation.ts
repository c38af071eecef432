/**
 * Rotations that `quantlet rotate` has applied to a model, from its metadata
 * (`quantlet.rotation.*`): the number of elements that each rotation transforms together.
 */
import { QuantletError } from '../errors.ts';
import { getCount, type HasMetadata } from '../gguf/metadata.ts';
import { isFwhtSize, powerOfTwo } from '../graph/fwht-size.ts';

export const ROTATIONS = ['r1', 'r2', 'r3', 'r4'] as const;
export type RotationName = (typeof ROTATIONS)[number];
export const rotationKey = (name: string): string => `quantlet.rotation.${name}`;

/** Rotations that the graph computes; 0: none. */
export interface OnlineRotations {
  /** R3: of queries and keys, after rope. */
  readonly queries: number;
  /** R4: of the input of ffn_down. */
  readonly feedForward: number;
}

/**
 * @throws ERR_GGUF_INVALID if the transform does not exist for this model's heads or feed-forward
 */
export function readRotations(gguf: HasMetadata, headDim: number, nFf: number): OnlineRotations {
  const sizeOf = (name: RotationName, width: number, expected: string, fits: (n: number) => boolean): number => {
    const n = getCount(gguf, rotationKey(name), 0);
    if (n === 0 || (width % n === 0 && fits(n))) return n;
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `metadata "${rotationKey(name)}" is ${n}; expected ${expected} that divides ${width}: the file is damaged, or its metadata was changed`,
    );
  };
  return {
    queries: sizeOf('r3', headDim, 'a power of two', (n) => powerOfTwo(n) === n),
    feedForward: sizeOf('r4', nFf, '2^k, or 12, 20 or 28 times 2^k,', isFwhtSize),
  };
}

/** Rotations that have changed a model's weights. */
export const rotatedWeights = (gguf: HasMetadata): RotationName[] =>
  ROTATIONS.filter((name) => name !== 'r3' && getCount(gguf, rotationKey(name), 0) > 0);
