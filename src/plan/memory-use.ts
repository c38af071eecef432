/** Memory that a model takes, and the errors if there is too little. */
import { QuantletError } from '../errors.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import { mebibytes } from '../wasm/memory.ts';

/** Bytes of a model's memory by purpose. */
export interface MemoryParts {
  /**
   * Size of the weights in the file, or in the faster type that replaces theirs (type-traits.ts).
   * Packed matrices are padded to whole row blocks.
   */
  readonly weights: number;
  /** Keys and values of all sequences, and states of recurrent layers with their checkpoints. */
  readonly cache: number;
  /** Intermediate results, scratch of the threads, plans, rope angles. */
  readonly compute: number;
}

export const memorySum = ({ weights, cache, compute }: MemoryParts): number => weights + cache + compute;

/** Memory that a plan takes, and the least that its weights could take. */
export interface Needs {
  readonly contextLength: number;
  /** Bytes of each memory. */
  readonly memories: readonly number[];
  readonly memory: MemoryParts;
  /** Minimum number of bytes of weights: the others are read from the file for every step. */
  readonly leastWeights: number;
}

const inParts = ({ contextLength, memory }: Needs): string =>
  `the model with its context of ${contextLength} needs ${mebibytes(memorySum(memory))} (weights ${mebibytes(memory.weights)}, cache ${mebibytes(memory.cache)}, computing ${mebibytes(memory.compute)})`;

/**
 * Error before anything is read: a model takes more memory than is free.
 * @param fast the caller chose the faster form of IQ1 to IQ3 and TQ1_0
 */
export function notEnough(needs: Needs, free: number, fast: boolean): QuantletError {
  const { contextLength, leastWeights } = needs;
  const { weights, cache, compute } = needs.memory;
  const context = Math.floor((contextLength * (free - weights - compute)) / cache / KV_SPLIT) * KV_SPLIT;
  const forWeights = Math.floor((free - cache - compute) / 2 ** 20);
  const remedies = [
    ...(context >= KV_SPLIT ? [`a contextLength of at most ${context} (-c)`, 'a smaller cacheTypeK and cacheTypeV'] : []),
    ...(forWeights * 2 ** 20 >= leastWeights ? [`a weightsMemory of at most ${forWeights} MiB (--weights-memory ${forWeights}M)`] : []),
    ...(fast ? ['iqWeights "compact" (--iq-weights compact)'] : []),
    'a smaller model or quantisation',
  ];
  return new QuantletError(
    'ERR_OUT_OF_MEMORY',
    `${inParts(needs)}, but ${mebibytes(free)} of memory are free; free some, or choose ${remedies.join(', or ')}`,
  );
}

/** Error if one layer is too large for a memory, so that dividing layers does not help. */
export const layerTooLarge = (needs: Needs): QuantletError =>
  new QuantletError(
    'ERR_OUT_OF_MEMORY',
    `${inParts(needs)}, with ${mebibytes(Math.max(...needs.memories))} in one WebAssembly memory, which has at most 4096 MiB, because a layer cannot be split; choose a smaller contextLength or a smaller quantisation`,
  );
