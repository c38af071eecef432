/** Feed-forwards of which only the neurons that fire are computed, as PowerInfer's files have them (arXiv 2312.12456). */
import { getNumber } from '../gguf/metadata.ts';
import { reglu, relu } from '../graph/elementwise-ops.ts';
import { axpy, mul_mat_sparse, type AxpyHeadOptions } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import { linear } from './blocks.ts';
import type { HParams } from './hparams.ts';
import { hasNeuronRows, neuronRows } from './neuron-rows.ts';

/** Whether a layer's last product is stored with a row for each neuron. */
export const isSparse = hasNeuronRows;

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
  let idx: Tensor;
  let h: Tensor;
  let counts: AxpyHeadOptions = { relu: true };
  if (rank === undefined) {
    idx = linear(g, x, name('ffn_gate'), nFf);
    h = mul_mat_sparse(up, x, idx, { relu: true, times: idx });
  } else {
    idx = linear(g, relu(linear(g, x, name('fc1'), rank)), name('fc2'), nFf);
    counts = { threshold: getNumber(g.gguf, 'powerinfer.sparse_threshold', 0) };
    const gate = mul_mat_sparse(g.weight(`${name('ffn_gate')}.weight`, [nEmbd, nFf]), x, idx, counts);
    h = reglu(gate, mul_mat_sparse(up, x, idx, counts));
  }
  const dense = g.neuronsFromFile ? undefined : g.optional(`${name('ffn_down')}.weight`, [nFf, nEmbd]);
  return dense ? axpy(downT, h, h, { dense }) : axpy(downT, h, idx, counts);
}
