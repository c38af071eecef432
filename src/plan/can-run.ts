/**
 * Tells from a file's header if it would run. The file is planned as loadModel() plans it, and the
 * error of that plan is the reason why it does not run.
 */
import type { Wants } from '../arch/architecture.ts';
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import type { GGUF } from '../gguf/types.ts';
import { resolveLoadOptions, type LoadOptions } from '../load-options.ts';
import { readVocab } from '../tokenize/vocab.ts';
import { refuseWithoutModel } from './file-kind.ts';
import { memorySum, type MemoryParts } from './memory-use.ts';
import { layoutOf, planToFit, type Machine } from './plan-to-fit.ts';

export type Verdict =
  | {
      readonly runs: true;
      /** Kind of result that the model gives. */
      readonly makes: Wants;
      /** Tokens of context that the model would be loaded with. */
      readonly context_length: number;
      /** Bytes of memory with this context. `memory` has them by purpose. */
      readonly memory_bytes: number;
      readonly memory: MemoryParts;
      /**
       * Form in memory of weights of IQ1 to IQ3 and TQ1_0 (iqWeights of loadModel), if there are
       * any.
       */
      readonly iq_weights?: 'compact' | 'fast';
      /** Tensors of the file that nothing reads, if there are any. */
      readonly unused_tensors?: readonly string[];
      /** Number of WebAssembly memories. */
      readonly memories: number;
    }
  | {
      readonly runs: false;
      /**
       * Error of loadModel(): an architecture, a tensor, a type, a tokenizer or memory is missing.
       */
      readonly code: QuantletErrorCode;
      readonly reason: string;
    };

/** @throws ERR_INVALID_ARGUMENT for options that make no sense */
export function canRun(gguf: GGUF, machine: Machine, given?: LoadOptions): Verdict {
  const options = { ...resolveLoadOptions(given), loras: new Map() };
  try {
    refuseWithoutModel(gguf);
    const layout = layoutOf(gguf, options);
    const { contextLength, memory, memories, iqWeights, unusedTensors } = planToFit(gguf, layout, options, machine);
    readVocab(gguf.metadata);
    return {
      runs: true,
      makes: layout.wants,
      context_length: contextLength,
      memory_bytes: memorySum(memory),
      memory,
      ...(iqWeights && { iq_weights: iqWeights }),
      ...(unusedTensors.length > 0 && { unused_tensors: unusedTensors }),
      memories: memories.length,
    };
  } catch (error) {
    if (!(error instanceof QuantletError)) throw error;
    return { runs: false, code: error.code, reason: error.message };
  }
}
