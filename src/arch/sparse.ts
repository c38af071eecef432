/** Feed-forwards of which only the neurons that fire are computed, as PowerInfer's files have them (arXiv 2312.12456). */
import { getNumber } from '../gguf/metadata.ts';
import { reglu, relu } from '../graph/elementwise-ops.ts';
import { axpy, mul_mat_sparse } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import { linear } from './blocks.ts';
import type { HParams } from './hparams.ts';
import { hasNeuronRows, neuronRows } from './neuron-rows.ts';

/** Whether a layer's last product is stored with a row for each neuron. */
export const isSparse = hasNeuronRows;

/** The least f32 above 0: what is at least so much passes a ReLU. */
const ABOVE_0 = 2 ** -149;

/**
 * down(relu(gate(x)) * up(x)), where `ffn_down_t` has a row for each neuron. With a predictor, fc2(relu(fc1(x))), the neurons it gives less than
 * `powerinfer.sparse_threshold` are left out. Without one nothing is: the gate is computed whole, and of the rest the neurons that it leaves open. Where the
 * file has `ffn_down`, too, tokens with many such neurons take it.
 */
export function sparseFeedForward(g: GraphContext, hp: HParams, il: number, x: Tensor): Tensor {
  const { nEmbd, nFf } = hp;
  const name = (part: string): string => `blk.${il}.${part}`;
  const { up, downT } = neuronRows(g, hp, il);
  const rank = g.shapeOf(`${name('fc1')}.weight`)?.[1];
  let gate: Tensor;
  let idx: Tensor;
  let threshold = ABOVE_0;
  if (rank === undefined) idx = gate = linear(g, x, name('ffn_gate'), nFf);
  else {
    idx = linear(g, relu(linear(g, x, name('fc1'), rank)), name('fc2'), nFf);
    threshold = getNumber(g.gguf, 'powerinfer.sparse_threshold', 0);
    gate = mul_mat_sparse(g.weight(`${name('ffn_gate')}.weight`, [nEmbd, nFf]), x, idx, { threshold });
  }
  const h = reglu(gate, mul_mat_sparse(up, x, idx, { threshold }));
  const dense = g.neuronsFromFile ? undefined : g.optional(`${name('ffn_down')}.weight`, [nFf, nEmbd]);
  return dense ? axpy(downT, h, h, { dense }) : axpy(downT, h, idx, { threshold });
}
