/** The weights of a feed-forward whose last product is stored with a row for each neuron, as the products of few neurons read them. */
import type { Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';

/** [n_embd, n_ff] each: a neuron's row of `ffn_up` and its row of `ffn_down_t`. */
export interface NeuronRows {
  readonly up: Tensor;
  readonly downT: Tensor;
}

const downOf = (il: number): string => `blk.${il}.ffn_down_t.weight`;
const bundleOf = (il: number): string => `blk.${il}.ffn_up_down.weight`;

/** Whether a tensor of this name is one of them. */
export const isNeuronRows = (name: string): boolean => /\.ffn_(down_t|up_down)\.weight$/.test(name);

/** Whether a layer has them. */
export const hasNeuronRows = (g: GraphContext, il: number): boolean => g.has(downOf(il)) || g.has(bundleOf(il));

/**
 * `ffn_up` and `ffn_down_t`; or, where a file has the two bundled as `ffn_up_down` [2 * n_embd, n_ff], so that what a neuron takes is one piece of the file
 * (arXiv 2312.11514, row-column bundling), views of that.
 */
export function neuronRows(g: GraphContext, { nEmbd, nFf }: HParams, il: number): NeuronRows {
  const bundle = g.optional(bundleOf(il), [2 * nEmbd, nFf]);
  if (!bundle) {
    const rows = (part: string): Tensor => g.weight(`blk.${il}.${part}.weight`, [nEmbd, nFf]);
    return { up: rows('ffn_up'), downT: rows('ffn_down_t') };
  }
  const [, length] = bundle.nb;
  const half = (offset: number): Tensor => view(bundle, [nEmbd, nFf], { nb: [length], offset });
  return { up: half(0), downT: half(length / 2) };
}
