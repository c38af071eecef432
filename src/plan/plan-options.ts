/** Options of a model's plan, after all choices. */
import type { Wants } from '../arch/architecture.ts';
import type { KvType } from '../graph/attention-ops.ts';
import type { Loras } from './lora.ts';

export interface ModelPlanOptions {
  /** Maximum number of bytes of weights in memory at a time. */
  readonly weightsMemory: number;
  /**
   * True: tables of which a step reads a row per token stay in the file, as they do if
   * weightsMemory is less than all weights.
   */
  readonly rowsFromFile: boolean;
  /** True: rows of neurons stay in the file. */
  readonly neuronsFromFile: boolean;
  /** Threads that read weights while others compute. */
  readonly readers: number;
  /** Most memories. */
  readonly links: number;
  readonly wants: Wants;
  readonly contextLength: number;
  /** Sequences at once. */
  readonly parallel: number;
  /** Cells for recurrent states of each sequence. */
  readonly stateCells: number;
  /** Maximum number of tokens and outputs of one step. */
  readonly batchSize: number;
  readonly maxOutputs: number;
  readonly threads: number;
  readonly cacheTypeK: KvType;
  readonly cacheTypeV: KvType;
  /** True: quantised caches are rotated. */
  readonly cacheRotation: boolean;
  /**
   * True: weights of IQ1 to IQ3 and TQ1_0 are packed as the faster type that their own type names
   * (type-traits.ts).
   */
  readonly fastWeights: boolean;
  /** Bits that packed products round activations to. */
  readonly actBits: 4 | 8;
  readonly unifiedMax?: number | undefined;
  /** Fraction of attention heads that outputs are computed with. */
  readonly attnHeads?: number | undefined;
  readonly loras: Loras;
  /** Numbers of an image token's embedding, deepstack included; 0: no images. */
  readonly imageWidth: number;
  /** Selects matrices, by name, whose inputs are measured. */
  readonly inputSums: ((matrix: string) => boolean) | undefined;
  /** Selects weights, by name, whose inputs are kept. */
  readonly keptInputs: ((weight: string) => boolean) | undefined;
}
