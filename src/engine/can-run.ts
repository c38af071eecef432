/** Whether a file would run, from its header alone: it is planned as loadModel plans it, and what is missing is what stops that. */
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
      /** What the model makes. */
      readonly makes: Wants;
      /** Tokens of context that it is loaded with. */
      readonly context_length: number;
      /** Bytes of memory with so many, and what they are for. */
      readonly memory_bytes: number;
      readonly memory: MemoryParts;
      /** How weights of IQ1 to IQ3 and TQ1_0 lie in memory (iqWeights of loadModel), where it has such. */
      readonly iq_weights?: 'compact' | 'fast';
      /** Tensors of the file that nothing reads, where there are such. */
      readonly unused_tensors?: readonly string[];
      /** WebAssembly memories that they lie in. */
      readonly memories: number;
    }
  | {
      readonly runs: false;
      /** What is missing: an architecture, a tensor, a type, a tokenizer, or memory. */
      readonly code: QuantletErrorCode;
      readonly reason: string;
    };

/** @throws ERR_INVALID_ARGUMENT for options that make no sense */
export function canRun(gguf: GGUF, machine: Machine, given?: LoadOptions): Verdict {
  const options = { ...resolveLoadOptions(given), loras: new Map() };
  try {
    refuseWithoutModel(gguf);
    const layout = layoutOf(gguf, options);
    readVocab(gguf.metadata);
    const { contextLength, memory, memories, iqWeights, unusedTensors } = planToFit(gguf, layout, options, machine);
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
