/**
 * Mixtures of experts: a router chooses some of a layer's feed-forwards for each token and weights
 * their outputs. Source: llama.cpp's build_moe_ffn.
 */
import { getCount } from '../gguf/metadata.ts';
import { QuantletError } from '../errors.ts';
import { add, clamp, div, gelu, mul, reglu, scale as scaled, sigmoid, swiglu, swiglu_oai } from '../graph/elementwise-ops.ts';
import { add_id, mul_mat_id } from '../graph/grouped-ops.ts';
import { get_rows, set_rows } from '../graph/ops.ts';
import { soft_max, sum_rows, top_k, weighted_sum } from '../graph/row-ops.ts';
import type { BatchDim, Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import { gatedFeedForward, linear, relu_sqr, times } from './blocks.ts';
import { expertNeurons, hasExpertNeurons } from './expert-neurons.ts';
import type { HParams } from './hparams.ts';

/**
 * Function that turns the router's scores into weights: a softmax over all experts, a sigmoid of
 * each score, or a softmax over the chosen experts.
 */
export type Gating = 'softmax' | 'sigmoid' | 'softmaxOfChosen';

/** Gatings by their number in `expert_gating_func`. */
const GATINGS: readonly (Gating | undefined)[] = [undefined, 'softmax', 'sigmoid', 'softmaxOfChosen'];

const UNITS = { silu: swiglu, relu: reglu, swiglu_oai } as const;
const PLAIN = { gelu, relu_sqr } as const;

export interface ExpertOptions {
  /** Default 'softmax'. */
  readonly gating?: Gating;
  /** Divides the weights of the chosen experts by their sum. Default false. */
  readonly normalised?: boolean;
  /** Factor of the final weights; 0 means 1. Default 1. */
  readonly weightsScale?: number;
  /**
   * Activation of the gate. 'gelu' and 'relu_sqr' are for experts without a gate and apply to up.
   * Default 'silu'.
   */
  readonly act?: keyof typeof UNITS | keyof typeof PLAIN;
  /**
   * Neurons of an expert. Default: the file's expert_feed_forward_length, or feed_forward_length.
   */
  readonly nFf?: number;
  /** The router's scores [n_expert, n_tokens], if the router does not read x. */
  readonly scores?: Tensor;
}

/** Lower bound of a sum of weights: the smallest normal f16. */
const LEAST_SUM = 2 ** -14;
const byTokens = (dim: BatchDim['dim']): BatchDim => ({ dim, by: 'tokens' });

/** @throws ERR_GGUF_INVALID for an unknown number */
export function gatingOf({ gguf }: GraphContext, arch: string, fallback: Gating): Gating {
  const key = `${arch}.expert_gating_func`;
  const number = getCount(gguf, key, 0);
  if (number === 0) return fallback;
  const found = GATINGS[number];
  if (!found)
    throw new QuantletError('ERR_GGUF_INVALID', `${key} is ${number}; expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)`);
  return found;
}

/** The router's scores of a layer's experts for the states x: [n_expert, n_tokens]. */
export const routerScores = (g: GraphContext, hp: HParams, il: number, x: Tensor): Tensor =>
  linear(g, x, `blk.${il}.ffn_gate_inp`, hp.nExpert);

/**
 * Experts of layer il for the normed states x [n_embd, n_tokens], summed from the most probable
 * expert to the least.
 */
export function experts(g: GraphContext, hp: HParams, il: number, x: Tensor, options: ExpertOptions = {}): Tensor {
  const { nEmbd, nExpert } = hp;
  if (nExpert === 0)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${hp.arch}.expert_count is 0 or missing, but layer ${il} has experts; expected their number`,
    );
  const { act = 'silu', nFf = hp.nFfExpert, scores = routerScores(g, hp, il, x) } = options;
  const { ids, weights } = route(g, hp, il, scores, options);
  const name = (part: string): string => `blk.${il}.ffn_${part}_exps`;
  const each = reshape(x, [nEmbd, 1, x.ne[1], 1], byTokens(2));
  const products = (b: Tensor, ...parts: readonly (readonly [part: string, nOut: number])[]): Tensor[] =>
    productsById(
      g,
      hp,
      b,
      ids,
      parts.map(([part, nOut]) => [name(part), nOut]),
    );
  if (act === 'relu' && hasExpertNeurons(g, il)) return expertNeurons(g, hp, il, x, products(each, ['gate', nFf])[0], ids, weights);
  const hidden = (): Tensor => {
    if (act === 'gelu' || act === 'relu_sqr') return PLAIN[act](products(each, ['up', nFf])[0]);
    if (g.has(`${name('gate_up')}.weight`)) {
      const [both] = products(each, ['gate_up', 2 * nFf]);
      return UNITS[act](both);
    }
    const [gate, up] = products(each, ['gate', nFf], ['up', nFf]);
    return UNITS[act](gate, up);
  };
  const [down] = products(hidden(), ['down', nEmbd]);
  return weighted_sum(down, weights);
}

/**
 * Products of one input with the chosen experts' matrices, in stages as in `linears`: times each
 * expert's scale, plus its bias, if present.
 */
function productsById(
  g: GraphContext,
  hp: HParams,
  b: Tensor,
  ids: Tensor,
  weights: readonly (readonly [name: string, nOut: number])[],
): Tensor[] {
  const { nExpert } = hp;
  const step = (nodes: Tensor[]): Tensor[] => (g.expand(...nodes), nodes);
  const ys = step(weights.map(([name, nOut]) => mul_mat_id(g.weight(`${name}.weight`, [b.ne[0], nOut, nExpert]), b, ids)));
  const ofChosen = (factors: Tensor): Tensor => get_rows(view(factors, [1, nExpert, ids.ne[1], 1], { nb: [4, 0] }, byTokens(2)), ids);
  const timed = step(
    weights.map(([name], i) => {
      const factors = g.optional(`${name}.scale`, [nExpert]);
      return factors ? mul(ys[i], ofChosen(factors)) : ys[i];
    }),
  );
  return step(
    weights.map(([name, nOut], i) => {
      const bias = g.optional(`${name}.bias`, [nOut, nExpert]);
      return bias ? add_id(timed[i], bias, ids) : timed[i];
    }),
  );
}

/**
 * Experts of each token, i32 [n_used, n_tokens], most probable first (ties: lower index first), and
 * their weights [1, n_used, n_tokens].
 */
function route(
  g: GraphContext,
  hp: HParams,
  il: number,
  scores: Tensor,
  { gating = 'softmax', normalised = false, weightsScale = 1 }: ExpertOptions,
): { readonly ids: Tensor; readonly weights: Tensor } {
  const { nExpert } = hp;
  const nTokens = scores.ne[1];
  const nUsed = hp.nExpertUsed[il];
  const probs = gating === 'softmax' ? soft_max(scores) : gating === 'sigmoid' ? sigmoid(scores) : scores;
  // The bias affects the choice only, never the weights.
  const bias = g.optional(`blk.${il}.exp_probs_b.bias`, [nExpert]);
  const ids = top_k(inBestGroups(hp, bias ? add(probs, bias) : probs), nUsed);
  const chosen = get_rows(reshape(probs, [1, nExpert, nTokens, 1], byTokens(2)), ids);
  let weights: Tensor = reshape(chosen, [nUsed, nTokens, 1, 1], byTokens(1));
  if (gating === 'softmaxOfChosen') weights = soft_max(weights);
  if (normalised) weights = div(weights, clamp(sum_rows(weights), LEAST_SUM, Infinity));
  weights = times(weights, weightsScale || 1);
  return { ids, weights: reshape(weights, [1, nUsed, nTokens, 1], byTokens(2)) };
}

/**
 * For experts in groups: keeps the scores of the best groups and sets others to -Infinity. A
 * group's score is the sum of its two best experts (arXiv 2412.19437).
 */
function inBestGroups({ nExpert, nExpertGroups, nExpertGroupsUsed }: HParams, probs: Tensor): Tensor {
  if (nExpertGroups < 2) return probs;
  const nTokens = probs.ne[1];
  const size = nExpert / nExpertGroups;
  const groups = reshape(probs, [size, nExpertGroups, nTokens, 1], byTokens(2));
  const two = get_rows(reshape(groups, [1, size, nExpertGroups, nTokens], byTokens(3)), top_k(groups, 2));
  const sums = sum_rows(reshape(two, [2, nExpertGroups, nTokens, 1], byTokens(2)));
  const best = top_k(reshape(sums, [nExpertGroups, nTokens, 1, 1], byTokens(1)), nExpertGroupsUsed);
  const none = scaled(groups, 0, { bias: -Infinity });
  return reshape(set_rows(none, get_rows(groups, best), best), [nExpert, nTokens, 1, 1], byTokens(1));
}

/**
 * The shared expert, which every token goes through. Multiplied by its gate's sigmoid if the file
 * has the gate.
 */
export function sharedExpert(g: GraphContext, hp: HParams, il: number, x: Tensor, nFf: number): Tensor {
  const y = gatedFeedForward(g, hp, il, x, { suffix: '_shexp', nFf });
  const gate = `blk.${il}.ffn_gate_inp_shexp`;
  return g.has(`${gate}.weight`) ? mul(y, sigmoid(linear(g, x, gate, 1))) : y;
}
