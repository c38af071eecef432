/**
 * Weights of feed-forwards whose last product is stored with a row for each neuron, for products
 * that compute few neurons.
 */
import type { Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';

/** Each [n_embd, n_ff]: row i of `up` and of `downT` belong to neuron i. */
export interface NeuronRows {
  readonly up: Tensor;
  readonly downT: Tensor;
}

const downOf = (il: number): string => `blk.${il}.ffn_down_t.weight`;
const bundleOf = (il: number): string => `blk.${il}.ffn_up_down.weight`;

/** Tells by its name if a tensor has rows of neurons (`ffn_down_t` or both weights bundled). */
export const isNeuronRows = (name: string): boolean => name.endsWith('.ffn_down_t.weight') || name.endsWith('.ffn_up_down.weight');

/** Tells if a layer has such weights. */
export const hasNeuronRows = (g: GraphContext, il: number): boolean => g.has(downOf(il)) || g.has(bundleOf(il));

/** Tensors of a layer that have a row, or an element, for each neuron. */
const ofNeurons = (il: number): readonly string[] =>
  ['ffn_gate', 'ffn_up', 'ffn_down_t', 'ffn_up_down', 'fc2']
    .map((part) => `blk.${il}.${part}.weight`)
    .concat(['ffn_gate', 'ffn_up'].map((part) => `blk.${il}.${part}.bias`));

/**
 * A view of the weights of layer il that starts at neuron `from`. Its end is the n_ff that the
 * feed-forward asks for. `ffn_down` is hidden, because there neurons are columns.
 */
export function neuronsFrom(g: GraphContext, il: number, from: number): GraphContext {
  const names = ofNeurons(il);
  const optional = (name: string, ne: readonly number[]): Tensor | undefined =>
    name === `blk.${il}.ffn_down.weight` ? undefined : names.includes(name) ? g.rowsOf(name, from, ne) : g.optional(name, ne);
  return { ...g, optional, weight: (name, ne) => optional(name, ne) ?? g.weight(name, ne) };
}

/**
 * `ffn_up` and `ffn_down_t`; or views of `ffn_up_down` [2 * n_embd, n_ff], which some files have
 * instead. There a neuron is one contiguous piece of the file (row-column bundling, arXiv
 * 2312.11514).
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
