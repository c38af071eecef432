/**
 * Feed-forwards with ReLU, also those that compute only the neurons that fire, as PowerInfer's
 * files have them (arXiv 2312.12456).
 */
import { QuantletError } from '../errors.ts';
import { getNumber, getNumberPerLayer, withMetadata } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { add, mul, reglu, relu } from '../graph/elementwise-ops.ts';
import { mul_mat } from '../graph/ops.ts';
import { axpy, mul_mat_sparse, type AxpyHeadOptions } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import { gatedFeedForward, linear, plainFeedForward, plusBias } from './blocks.ts';
import type { HParams } from './hparams.ts';
import { hasNeuronRows, isNeuronRows, neuronRows, neuronsFrom } from './neuron-rows.ts';

/**
 * Metadata key: lowest predictor score for which a neuron is computed. A file with this key
 * (PowerInfer's) has ReLU.
 */
export const SPARSE_THRESHOLD = 'powerinfer.sparse_threshold';

/**
 * Metadata key: number of a layer's first neurons that are computed for every token (PowerInfer
 * keeps these on the GPU). One number, or one for each layer.
 */
export const HOT_NEURONS = 'quantlet.sparse.hot_neurons';

/**
 * Activation of a neuron: relu(gate) * up, relu(gate) * relu(up) (Bamboo's dReLU), or relu(up)
 * without a gate.
 */
export type ReluUnit = 'relu' | 'drelu' | 'plain';

/**
 * Architectures that PowerInfer has: the unit, and true if all files of the architecture have it.
 */
const UNITS: Readonly<Record<string, readonly [unit: ReluUnit, always: boolean]>> = {
  llama: ['relu', false],
  bamboo: ['drelu', true],
  falcon: ['plain', false],
  opt: ['plain', true],
};
export const RELU_ARCHITECTURES: readonly string[] = Object.keys(UNITS);

/**
 * Replaces the threshold of a file.
 * @throws QuantletError ERR_INVALID_ARGUMENT if the file has no predictors
 */
export function withThreshold(gguf: GGUF, threshold: number | undefined): GGUF {
  if (threshold === undefined) return gguf;
  if (!reluUnit(gguf) || !gguf.tensors.has('blk.0.fc1.weight'))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `sparseThreshold is ${threshold}, but the model has no predictors; leave it out, or give a file made by quantlet sparsify --predictor`,
    );
  return withMetadata(gguf, { [SPARSE_THRESHOLD]: threshold });
}

/** Unit of a file's feed-forwards; undefined: the activation is not ReLU. */
export function reluUnit({ metadata, tensors }: GGUF): ReluUnit | undefined {
  const arch = metadata.get('general.architecture') as string;
  if (!Object.hasOwn(UNITS, arch)) return undefined;
  const [unit, always] = UNITS[arch];
  return always || metadata.has(SPARSE_THRESHOLD) || [...tensors.keys()].some(isNeuronRows) ? unit : undefined;
}

/**
 * Number of a layer's first neurons that are computed for every token.
 * @throws ERR_GGUF_INVALID
 */
function hotNeurons({ gguf }: GraphContext, { nLayer, nFf }: HParams, il: number): number {
  const n = getNumberPerLayer(gguf, HOT_NEURONS, nLayer, 0)[il];
  if (!(Number.isInteger(n) && n >= 0 && n < nFf))
    throw new QuantletError('ERR_GGUF_INVALID', `${HOT_NEURONS} is ${n} for layer ${il}; expected 0 to ${nFf - 1}, fewer than its neurons`);
  return n;
}

/**
 * Feed-forward of layer il over the normed states x. If the file has a row of the last product for
 * each neuron, only some neurons are computed.
 * @param seen input of the predictor: PowerInfer's predictors read the states before the norm
 */
export function reluFeedForward(g: GraphContext, hp: HParams, il: number, unit: ReluUnit, x: Tensor, seen: Tensor): Tensor {
  if (hasNeuronRows(g, il)) {
    const hot = hotNeurons(g, hp, il);
    if (hot === 0) return sparseFeedForward(g, hp, il, unit, x, seen);
    const y = hotFeedForward(neuronsFrom(g, il, 0), { ...hp, nFf: hot }, il, unit, x);
    return add(y, sparseFeedForward(neuronsFrom(g, il, hot), { ...hp, nFf: hp.nFf - hot }, il, unit, x, seen));
  }
  return unit === 'plain' ? plainFeedForward(g, hp, il, x, { act: relu }) : gatedFeedForward(g, hp, il, x, { act: unit });
}

/**
 * down(unit(x)) by rows of neurons, all of which are computed. The last product's bias is left to
 * sparseFeedForward().
 */
function hotFeedForward(g: GraphContext, hp: HParams, il: number, unit: ReluUnit, x: Tensor): Tensor {
  const name = (part: string): string => `blk.${il}.${part}`;
  const { up: w, downT } = neuronRows(g, hp, il);
  const product = (part: string, w: Tensor): Tensor => plusBias(g, mul_mat(w, x), name(part));
  const up = product('ffn_up', w);
  const gate = (): Tensor => product('ffn_gate', g.weight(`${name('ffn_gate')}.weight`, [hp.nEmbd, hp.nFf]));
  const h = unit === 'plain' ? relu(up) : reglu(gate(), unit === 'drelu' ? relu(up) : up);
  return axpy(downT, h, h);
}

/**
 * down(unit(x)), if `ffn_down_t` has a row for each neuron. With a predictor, fc2(relu(fc1(seen))),
 * neurons that score below `powerinfer.sparse_threshold` are skipped. Without one, no neuron is
 * guessed: the first product is computed whole, and the others only for neurons that it leaves
 * above 0. If the file also has `ffn_down`, tokens with many such neurons use that.
 */
function sparseFeedForward(g: GraphContext, hp: HParams, il: number, unit: ReluUnit, x: Tensor, seen: Tensor): Tensor {
  const { nEmbd, nFf } = hp;
  const name = (part: string): string => `blk.${il}.${part}`;
  const first = unit === 'plain' ? 'ffn_up' : 'ffn_gate';
  const { up, downT } = neuronRows(g, hp, il);
  const rank = g.shapeOf(`${name('fc1')}.weight`)?.[1];
  // Without a predictor, the first product selects the neurons: those above 0.
  const counts: AxpyHeadOptions = rank === undefined ? { relu: true } : { threshold: getNumber(g.gguf, SPARSE_THRESHOLD, 0) };
  const idx = rank === undefined ? linear(g, x, name(first), nFf) : linear(g, relu(linear(g, seen, name('fc1'), rank)), name('fc2'), nFf);
  const rows = (part: string, w: Tensor): Tensor => plusBias(g, mul_mat_sparse(w, x, idx, counts), name(part));
  const gate = (): Tensor =>
    rank === undefined ? idx : rows(first, unit === 'plain' ? up : g.weight(`${name('ffn_gate')}.weight`, [nEmbd, nFf]));
  const activations = (): Tensor => {
    if (unit === 'plain') return relu(gate());
    if (unit === 'drelu') return mul(relu(gate()), relu(rows('ffn_up', up)));
    return rank === undefined && !g.has(`${name('ffn_up')}.bias`)
      ? mul_mat_sparse(up, x, idx, { ...counts, times: idx })
      : reglu(gate(), rows('ffn_up', up));
  };
  const h = activations();
  // Neurons that were not computed are 0, unless a bias is added to them.
  const dense =
    g.neuronsFromFile || (rank !== undefined && g.has(`${name('ffn_up')}.bias`))
      ? undefined
      : g.optional(`${name('ffn_down')}.weight`, [nFf, nEmbd]);
  const byItself = unit === 'drelu' && rank === undefined && !g.neuronsFromFile;
  const y = dense || byItself ? axpy(downT, h, h, { dense }) : axpy(downT, h, idx, counts);
  return plusBias(g, y, name(g.has(`${name('ffn_down_t')}.bias`) ? 'ffn_down_t' : 'ffn_down'));
}
