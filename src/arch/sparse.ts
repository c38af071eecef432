/** Feed-forwards of which only the neurons that fire are computed, as PowerInfer's files have them (arXiv 2312.12456). */
import { getNumber } from '../gguf/metadata.ts';
import { mul, relu } from '../graph/elementwise-ops.ts';
import { axpy, mul_mat_sparse } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import { linear } from './blocks.ts';
import type { HParams } from './hparams.ts';

/** Whether a layer's last product is stored with a row for each neuron. */
export const isSparse = (g: GraphContext, il: number): boolean => g.has(`blk.${il}.ffn_down_t.weight`);

/**
 * down(relu(gate(x)) * up(x)), where `ffn_down_t` has a row for each neuron. With a predictor, fc2(relu(fc1(x))), the neurons it gives less than
 * `powerinfer.sparse_threshold` are left out. Without one nothing is: the gate is computed whole, and of the rest the neurons that it leaves open. Where the
 * file has `ffn_down`, too, tokens with many such neurons take it.
 */
export function sparseFeedForward(g: GraphContext, { nEmbd, nFf }: HParams, il: number, x: Tensor): Tensor {
  const name = (part: string): string => `blk.${il}.${part}`;
  const weight = (part: string): Tensor => g.weight(`${name(part)}.weight`, [nEmbd, nFf]);
  const rank = g.shapeOf(`${name('fc1')}.weight`)?.[1];
  let gate: Tensor;
  let idx: Tensor;
  let threshold: number | undefined;
  if (rank === undefined) idx = gate = relu(linear(g, x, name('ffn_gate'), nFf));
  else {
    idx = linear(g, relu(linear(g, x, name('fc1'), rank)), name('fc2'), nFf);
    threshold = getNumber(g.gguf, 'powerinfer.sparse_threshold', 0);
    gate = relu(mul_mat_sparse(weight('ffn_gate'), x, idx, { threshold }));
  }
  const h = mul(gate, mul_mat_sparse(weight('ffn_up'), x, idx, { threshold }));
  const dense = g.optional(`${name('ffn_down')}.weight`, [nFf, nEmbd]);
  return dense ? axpy(weight('ffn_down_t'), h, h, { dense }) : axpy(weight('ffn_down_t'), h, idx, { threshold });
}
