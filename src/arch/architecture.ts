/** What an architecture file gives (metadata -> graph, nothing else) and what it is given to build with. */
import { QuantletError } from '../errors.ts';
import type { GGUF } from '../gguf/types.ts';
import type { Tensor } from '../graph/tensor.ts';
import { llama } from './llama.ts';
import type { RopeParams } from './rope-table.ts';

/** Numbers every transformer has, from the model's metadata. */
export interface HParams {
  readonly nVocab: number;
  readonly nCtxTrain: number;
  readonly nEmbd: number;
  readonly nLayer: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  /** Dimensions of a query, key and value head. */
  readonly headDim: number;
  readonly nFf: number;
  readonly eps: number;
  readonly rope: RopeParams;
}

export interface GraphInputs {
  /** Token ids, i32 [n_tokens]. */
  readonly ids: Tensor;
  /** Positions, i32 [n_tokens]. */
  readonly pos: Tensor;
  /** KV cells the tokens are stored to, i32 [n_tokens]. */
  readonly cells: Tensor;
  /** First cell of each token's sequence, i32 [n_tokens]. */
  readonly first: Tensor;
  /** Cells each token sees, from the first, i32 [n_tokens]. */
  readonly visible: Tensor;
  /** Which tokens' logits are wanted, i32 [n_outputs]. */
  readonly outputs: Tensor;
}

export interface GraphContext {
  readonly inputs: GraphInputs;
  /** A weight by its GGUF name; its shape is checked. @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE */
  weight(name: string, ne: readonly number[]): Tensor;
  /** The same where the model may do without. */
  optional(name: string, ne: readonly number[]): Tensor | undefined;
  /** The KV cache of a layer. */
  cache(layer: number): { k: Tensor; v: Tensor };
  /** f32 [n_dims, n_ctx] of angles; equal parameters share one table. */
  ropeTable(params: RopeParams): Tensor;
  /** Puts nodes next in the order of computation, with all they need (ggml_build_forward_expand). */
  expand(...nodes: Tensor[]): void;
}

export interface Architecture {
  readonly name: string;
  hparams(gguf: GGUF): HParams;
  /** Builds the graph and returns the logits, f32 [n_vocab, n_outputs]. */
  build(hparams: HParams, context: GraphContext): Tensor;
}

const ARCHITECTURES: readonly Architecture[] = [llama];

/** @throws ERR_UNSUPPORTED_ARCH naming those that run */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.find((a) => a.name === name);
  if (!found) throw new QuantletError('ERR_UNSUPPORTED_ARCH', `the model's architecture is "${name}"; quantlet runs ${ARCHITECTURES.map((a) => a.name).join(', ')}`);
  return found;
}
