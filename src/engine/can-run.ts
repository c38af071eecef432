/** Whether a file would run, from its header alone: it is planned as loadModel plans it, and what is missing is what stops that. */
import type { Wants } from '../arch/architecture.ts';
import { readHParams } from '../arch/hparams.ts';
import { findArchitecture } from '../arch/registry.ts';
import { QuantletError, type QuantletErrorCode } from '../errors.ts';
import { getArchitecture, getString } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { readVocab } from '../tokenize/vocab.ts';
import type { Kernels } from '../wasm/abi.ts';
import { mebibytes, MEMORY_LIMIT } from '../wasm/memory.ts';
import { DEFAULT_CONTEXT, wantsOf } from './model-engine.ts';
import { memorySum } from './memory-use.ts';
import { inMemories, planInMemories, planModel, type ModelPlan } from './model-plan.ts';

export type Verdict =
  | {
      readonly runs: true;
      /** What the model makes. */
      readonly makes: Wants;
      /** Tokens of context that it is loaded with where nobody says how many. */
      readonly context_length: number;
      /** Bytes of memory with so many, on one thread. */
      readonly memory_bytes: number;
    }
  | {
      readonly runs: false;
      /** What is missing: an architecture, a tensor, a type, a tokenizer, or memory. */
      readonly code: QuantletErrorCode;
      readonly reason: string;
    };

/** loadModel's defaults. */
const BATCH = 512;
const CHECKPOINTS = 8;

/** @param facts the kernels of any build (`kernelFacts`) */
export function canRun(gguf: GGUF, facts: Kernels): Verdict {
  try {
    const kind = getString(gguf, 'general.type', 'model');
    if (kind !== 'model')
      throw new QuantletError(
        'ERR_UNSUPPORTED_ARCH',
        `the file is of type "${kind}", no model by itself; give it beside the model it is for`,
      );
    const architecture = findArchitecture(getArchitecture(gguf));
    const hparams = readHParams(gguf);
    readVocab(gguf.metadata);
    const wants = wantsOf(hparams, undefined);
    const contextLength = Math.min(hparams.nCtxTrain, DEFAULT_CONTEXT);
    const batchSize = hparams.causal ? BATCH : Math.max(BATCH, contextLength);
    const planWith = (links: number): ModelPlan =>
      planModel(gguf, architecture, hparams, facts, {
        links,
        weightsMemory: Infinity,
        readers: 0,
        wants,
        contextLength,
        parallel: 1,
        stateCells: wants === 'logits' ? 1 + CHECKPOINTS : 1,
        batchSize,
        maxOutputs: wants === 'logits' ? 1 : batchSize,
        threads: 1,
        cacheTypeK: 'f16',
        cacheTypeV: 'f16',
        cacheRotation: true,
        loras: new Map(),
        inputSums: undefined,
      });
    const model = planInMemories(planWith, 1);
    if (!inMemories(model))
      throw new QuantletError(
        'ERR_OUT_OF_MEMORY',
        `a layer of the model needs more than the ${mebibytes(MEMORY_LIMIT)} of a WebAssembly memory with ${contextLength} tokens of context; ` +
          'take a smaller quantisation or a shorter context',
      );
    return { runs: true, makes: wants, context_length: contextLength, memory_bytes: memorySum(model.memory) };
  } catch (error) {
    if (!(error instanceof QuantletError)) throw error;
    return { runs: false, code: error.code, reason: error.message };
  }
}
