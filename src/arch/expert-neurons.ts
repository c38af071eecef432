/**
 * Experts with ReLU that compute only the neurons that fire, in each expert that a token is routed
 * to (SmallThinker, arXiv 2507.20984).
 */
import { QuantletError } from '../errors.ts';
import { clamp, mul } from '../graph/elementwise-ops.ts';
import { set_rows } from '../graph/ops.ts';
import { axpy, mul_mat_sparse } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';

const downOf = (il: number): string => `blk.${il}.ffn_down_exps_t`;

/**
 * Tells if a layer's experts have a row of the last product for each neuron: [n_embd, n_ff,
 * n_expert].
 */
export const hasExpertNeurons = (g: GraphContext, il: number): boolean => g.has(`${downOf(il)}.weight`);

/**
 * Weighted sum of the chosen experts' outputs. The neurons of all experts are treated as rows of
 * one matrix. Neurons of experts that a token is not routed to do not fire. Gates, ids and weights
 * are those of the chosen experts.
 * @param gates f32 [n_ff, n_used, n_tokens]
 * @param ids i32 [n_used, n_tokens]
 * @param weights f32 [1, n_used, n_tokens], each at least 0
 */
export function expertNeurons(
  g: GraphContext,
  { nEmbd, nExpert }: HParams,
  il: number,
  x: Tensor,
  gates: Tensor,
  ids: Tensor,
  weights: Tensor,
): Tensor {
  const [nFf, , nTokens] = gates.ne;
  const up = `blk.${il}.ffn_up_exps`;
  for (const name of [up, downOf(il)].flatMap((of) => [`${of}.bias`, `${of}.scale`]))
    if (g.has(name))
      throw new QuantletError(
        'ERR_UNSUPPORTED_ARCH',
        `the file has the tensor "${name}", which products of experts' neurons do not support`,
      );
  const rows = (name: string): Tensor => reshape(g.weight(`${name}.weight`, [nEmbd, nFf, nExpert]), [nEmbd, nFf * nExpert]);
  const open = mul(gates, weights);
  const byExpert = { dim: 2, by: 'tokens' } as const;
  const shut = clamp(view(open, [nFf, nExpert, nTokens, 1], { nb: [0, open.nb[2]] }, byExpert), 0, 0);
  const idx = reshape(set_rows(shut, open, ids), [nFf * nExpert, nTokens, 1, 1], { dim: 1, by: 'tokens' });
  const h = mul_mat_sparse(rows(up), x, idx, { relu: true, times: idx });
  return axpy(rows(downOf(il)), h, idx, { relu: true });
}
