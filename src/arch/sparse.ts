/** Feed-forwards with ReLU, and those of which only the neurons that fire are computed, as PowerInfer's files have them (arXiv 2312.12456). */
import { QuantletError } from '../errors.ts';
import { getNumber, withMetadata } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { mul, relu } from '../graph/elementwise-ops.ts';
import { axpy, mul_mat_sparse } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { GraphContext } from './architecture.ts';
import { gatedFeedForward, linear, plainFeedForward, plusBias } from './blocks.ts';
import type { HParams } from './hparams.ts';

/** The least that a predictor gives a neuron that is computed. A file that has the key, as PowerInfer's do, has ReLU. */
export const SPARSE_THRESHOLD = 'powerinfer.sparse_threshold';

/** What a neuron is: relu(gate) * up, relu(gate) * relu(up) (Bamboo's dReLU), or without a gate relu(up). */
export type ReluUnit = 'relu' | 'drelu' | 'plain';

/** Of the architectures that PowerInfer has: its unit, and whether no file of it has another. */
const UNITS: Readonly<Record<string, readonly [unit: ReluUnit, always: boolean]>> = {
  llama: ['relu', false],
  bamboo: ['drelu', true],
  falcon: ['plain', false],
  opt: ['plain', true],
};
export const RELU_ARCHITECTURES: readonly string[] = Object.keys(UNITS);

const DOWN_T = 'ffn_down_t.weight';

/** The file with another threshold than its own. @throws QuantletError ERR_INVALID_ARGUMENT where it has no predictors, and all neurons count */
export function withThreshold(gguf: GGUF, threshold: number | undefined): GGUF {
  if (threshold === undefined) return gguf;
  if (!reluUnit(gguf) || !gguf.tensors.has('blk.0.fc1.weight'))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `sparseThreshold is ${threshold}, and the model has no predictors that it could be held against; leave it out, or give a file that quantlet sparsify --predictor made`,
    );
  return withMetadata(gguf, { [SPARSE_THRESHOLD]: threshold });
}

/** The unit of a file's feed-forwards; undefined: they have another than ReLU. */
export function reluUnit({ metadata, tensors }: GGUF): ReluUnit | undefined {
  const arch = metadata.get('general.architecture') as string;
  if (!Object.hasOwn(UNITS, arch)) return undefined;
  const [unit, always] = UNITS[arch];
  return always || metadata.has(SPARSE_THRESHOLD) || [...tensors.keys()].some((name) => name.endsWith(`.${DOWN_T}`)) ? unit : undefined;
}

/**
 * The feed-forward of layer il over the normed states x. Where the file has a row of the last product for each neuron, only some are computed.
 * @param seen what a predictor reads: PowerInfer's read the states before the norm
 */
export function reluFeedForward(g: GraphContext, hp: HParams, il: number, unit: ReluUnit, x: Tensor, seen: Tensor): Tensor {
  if (g.has(`blk.${il}.${DOWN_T}`)) return sparseFeedForward(g, hp, il, unit, x, seen);
  return unit === 'plain' ? plainFeedForward(g, hp, il, x, { act: relu }) : gatedFeedForward(g, hp, il, x, { act: unit });
}

/**
 * down(unit(x)), where `ffn_down_t` has a row for each neuron. With a predictor, fc2(relu(fc1(seen))), the neurons it gives less than
 * `powerinfer.sparse_threshold` are left out. Without one nothing is: the first product is computed whole, and of the rest the neurons that it leaves open.
 * Where the file has `ffn_down`, too, tokens with many such neurons take it.
 */
function sparseFeedForward(g: GraphContext, { nEmbd, nFf }: HParams, il: number, unit: ReluUnit, x: Tensor, seen: Tensor): Tensor {
  const name = (part: string): string => `blk.${il}.${part}`;
  const weight = (part: string): Tensor => g.weight(`${name(part)}.weight`, [nEmbd, nFf]);
  const rank = g.shapeOf(`${name('fc1')}.weight`)?.[1];
  const predicted = rank === undefined ? undefined : linear(g, relu(linear(g, seen, name('fc1'), rank)), name('fc2'), nFf);
  const threshold = predicted && getNumber(g.gguf, SPARSE_THRESHOLD, 0);
  const rows = (part: string, idx: Tensor): Tensor => plusBias(g, mul_mat_sparse(weight(part), x, idx, { threshold }), name(part));

  const first = unit === 'plain' ? 'ffn_up' : 'ffn_gate';
  const open = relu(predicted ? rows(first, predicted) : linear(g, x, name(first), nFf));
  const up = (): Tensor => rows('ffn_up', predicted ?? open);
  const h = unit === 'plain' ? open : mul(open, unit === 'drelu' ? relu(up()) : up());
  // Neurons that were not computed are 0, but where a bias is added to them.
  const dense = predicted && g.has(`${name('ffn_up')}.bias`) ? undefined : g.optional(`${name('ffn_down')}.weight`, [nFf, nEmbd]);
  const down = weight('ffn_down_t');
  const y = dense ? axpy(down, h, h, { dense }) : axpy(down, h, predicted ?? (unit === 'drelu' ? h : open), { threshold });
  return plusBias(g, y, name(g.has(`${name('ffn_down_t')}.bias`) ? 'ffn_down_t' : 'ffn_down'));
}
