/** What a model takes of the machine's memory, and what is said where that is more than there is. */
import { QuantletError } from '../errors.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import { mebibytes } from '../wasm/memory.ts';

/** Bytes of a model's memory by what they are for. */
export interface MemoryParts {
  /** As they are in the file, the last rows of packed matrices filled up. */
  readonly weights: number;
  /** Keys and values of all sequences, and states of recurrent layers with their checkpoints. */
  readonly cache: number;
  /** Intermediate results, scratch of the threads, plans, rope angles. */
  readonly compute: number;
}

export const memorySum = ({ weights, cache, compute }: MemoryParts): number => weights + cache + compute;

/**
 * Before anything is read: there is not as much as a model takes.
 * @returns ERR_OUT_OF_MEMORY with the sum by its parts, and what would fit
 */
export function notEnough(parts: MemoryParts, free: number, contextLength: number): QuantletError {
  const { weights, cache, compute } = parts;
  const fitting = Math.floor((contextLength * (free - weights - compute)) / cache / KV_SPLIT) * KV_SPLIT;
  const remedy =
    fitting >= KV_SPLIT
      ? `choose a contextLength of at most ${fitting} (-c), or a smaller cacheTypeK and cacheTypeV`
      : 'choose a smaller model or quantisation';
  return new QuantletError(
    'ERR_OUT_OF_MEMORY',
    `the model with its context of ${contextLength} needs ${mebibytes(memorySum(parts))} (weights ${mebibytes(weights)}, cache ${mebibytes(cache)}, computing ${mebibytes(compute)}), but ${mebibytes(free)} of memory are free; free some, or ${remedy}`,
  );
}
