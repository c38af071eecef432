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

/** A layer's tensors that have a row, or an element, for each neuron. */
const ofNeurons = (il: number): readonly string[] =>
  ['ffn_gate', 'ffn_up', 'ffn_down_t', 'ffn_up_down', 'fc2']
    .map((part) => `blk.${il}.${part}.weight`)
    .concat(['ffn_gate', 'ffn_up'].map((part) => `blk.${il}.${part}.bias`));

/**
 * The same file with the neurons of a layer from one on, as if there were no others: so many as its feed-forward is told to have. `ffn_down`, of which they
 * would be columns, it has not.
 */
export function neuronsFrom(g: GraphContext, il: number, from: number): GraphContext {
  const names = ofNeurons(il);
  const optional = (name: string, ne: readonly number[]): Tensor | undefined =>
    name === `blk.${il}.ffn_down.weight` ? undefined : names.includes(name) ? g.rowsOf(name, from, ne) : g.optional(name, ne);
  return { ...g, optional, weight: (name, ne) => optional(name, ne) ?? g.weight(name, ne) };
}

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
