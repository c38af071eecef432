/**
 * Building blocks of transformers. A block takes its weights by their GGUF names and adapts to what
 * the file has: biases, fused products, norms of heads.
 */
import { QuantletError } from '../errors.ts';
import { attention, kv_store } from '../graph/attention-ops.ts';
import { add, clamp, geglu, gelu, mul, reglu, relu, scale, sigmoid, sqr, swiglu, tanh } from '../graph/elementwise-ops.ts';
import { get_rows, mul_mat, set_rows } from '../graph/ops.ts';
import { rope, type RopeMode } from '../graph/rope.ts';
import { fwht, norm as layer_norm, rms_norm, sum_rows, top_k } from '../graph/row-ops.ts';
import { axpy_head } from '../graph/sparse-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';
import type { TokenAngles } from './images.ts';

export const TOKENS_OF_HEADS = { dim: 2, by: 'tokens' } as const;

/**
 * RMS norm or layer norm (`hp.norm`) with the weight of this name, and its bias if there is one.
 */
export function norm(g: GraphContext, hp: HParams, x: Tensor, name: string): Tensor {
  const n = x.ne[0];
  if (hp.norm === 'plain') return layer_norm(x, { eps: hp.eps });
  const weight = g.optional(name, [n]) ?? g.weight(`${name}.weight`, [n]); // files of Falcon H1 name one weight without ".weight"
  if (hp.norm === 'layer') return layer_norm(x, { weight, bias: g.optional(`${name}.bias`, [n]), eps: hp.eps });
  return rms_norm(x, { weight, eps: hp.eps });
}

/**
 * weight x, times the weight's scale, plus adapters, plus the bias; all but the product only if
 * present.
 */
export const linear = (g: GraphContext, x: Tensor, name: string, nOut: number, product?: Tensor<'f32'>): Tensor =>
  linears(g, x, [[name, nOut, product]])[0];

/**
 * `linear` for several weights and one input, in shared stages: threads meet once a stage, not once
 * a stage and weight. A given `product` replaces weight x.
 */
export function linears(
  g: GraphContext,
  x: Tensor,
  weights: readonly (readonly [name: string, nOut: number, product?: Tensor<'f32'> | undefined])[],
): Tensor[] {
  const step = (...nodes: Tensor[]): Tensor[] => (g.expand(...nodes), nodes);
  const pairs = weights.flatMap(([name], i) => g.loras(`${name}.weight`).map((pair) => ({ ...pair, i })));
  const down = pairs.map(({ a }) => mul_mat(a, x));
  const ys = weights.map(([name, nOut, product]) => product ?? mul_mat(g.weight(`${name}.weight`, [x.ne[0], nOut]), x));
  step(...ys, ...down);
  weights.forEach(([name], i) => (ys[i] = timesScale(g, ys[i], name)));
  step(...ys);
  // Scale the adapter's first product, because its rows are the short ones.
  const scaled = step(...down.map((d, j) => times(d, pairs[j].scale)));
  const deltas = step(...scaled.map((d, j) => mul_mat(pairs[j].b, d)));
  pairs.forEach(({ i }, j) => (ys[i] = add(ys[i], deltas[j])));
  step(...ys);
  return step(...ys.map((y, i) => plusBias(g, y, weights[i][0])));
}

/** x * s; no op if s is 1. */
export const times = (x: Tensor, s: number): Tensor => (s === 1 ? x : scale(x, s));

/**
 * Multiplies a product by the weight's scale, one f32 `<name>.scale` for the whole matrix (NVFP4
 * and others have it).
 */
function timesScale(g: GraphContext, y: Tensor<'f32'>, name: string): Tensor<'f32'> {
  const factor = g.optional(`${name}.scale`, [1]);
  return factor ? mul(y, factor) : y;
}

/** y plus the bias of this name, if the file has it. */
export function plusBias(g: GraphContext, y: Tensor, name: string): Tensor {
  const bias = g.optional(`${name}.bias`, [y.ne[0]]);
  return bias ? add(y, bias) : y;
}

/** Embeddings of the step's tokens, plus adapters. */
export function embed(g: GraphContext, { nEmbd, nVocab }: HParams): Tensor {
  const name = 'token_embd.weight';
  const rows = g.tokenRows(g.weight(name, [nEmbd, nVocab]));
  return g.loras(name).reduce((sum, { a, b, scale: s }) => add(sum, mul_mat(b, times(g.tokenRows(a), s))), rows);
}

export interface AttentionOptions {
  /** Angles of rope, by position or by token; undefined: no rotation. */
  readonly angles?: Tensor | TokenAngles | undefined;
  /** Angles of queries, if they differ from those of keys. */
  readonly queryAngles?: Tensor | TokenAngles | undefined;
  /** Norms of q and k follow the rotation instead of preceding it. Default false. */
  readonly normAfterRope?: boolean;
  /** Pairs of elements that rope rotates. Default 'neox'. */
  readonly mode?: RopeMode;
  readonly scale?: number;
  readonly window?: number;
  /** @see AttentionParams.reach */
  readonly reach?: number | undefined;
  /** Positions that `reach` counts from. Default: those of the tokens. */
  readonly reachFrom?: Tensor | undefined;
  /** Number of cells that each token sees. Default: the step's. */
  readonly visible?: Tensor | undefined;
  readonly logitSoftcap?: number;
  /** max_bias of ALiBi (arXiv 2108.12409), which encodes positions as a bias by distance. */
  readonly maxBias?: number;
  /** Bias added to scores by the distance between key and token. @see AttentionParams.distances */
  readonly distances?: Tensor | undefined;
  /** f32 [n_head]: for each head an extra score in the softmax that has no value. */
  readonly sinks?: Tensor | undefined;
  /** A norm `attn_sub_norm` before the output product. */
  readonly subNorm?: boolean;
  /**
   * The product of q also has a gate after each head. Attention's output is multiplied by its
   * sigmoid. Default false.
   */
  readonly outputGate?: boolean;
  /** Dimensions of a head, if they differ from the model's. */
  readonly headDim?: number;
  /** Layer whose keys and values the queries attend to, for layers without their own. */
  readonly keysOf?: number | undefined;
  /** An rms norm without weights over each head of v. Default false. */
  readonly valueNorm?: boolean;
  /** Clamps q, k and v to [-bound, bound]; 0: no bound. */
  readonly bound?: number;
}

/**
 * Attention of layer il over the normed states h: q, k, v, rotation, cache, attention and the
 * output product.
 */
export function selfAttention(
  g: GraphContext,
  hp: HParams,
  il: number,
  h: Tensor,
  {
    angles,
    queryAngles = angles,
    normAfterRope = false,
    mode = 'neox',
    headDim = hp.headDim,
    scale = 1 / Math.sqrt(headDim),
    window = 0,
    reach,
    reachFrom,
    visible = g.inputs.visible,
    logitSoftcap = 0,
    maxBias = 0,
    distances,
    sinks,
    subNorm = false,
    outputGate = false,
    keysOf,
    valueNorm = false,
    bound = 0,
  }: AttentionOptions,
): Tensor {
  const { nHead } = hp;
  if (hp.valueDim !== hp.headDim)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `this ${hp.arch} model has value heads of ${hp.valueDim} and key heads of ${hp.headDim}, which quantlet does not run yet`,
    );
  const { pos, cells, first } = g.inputs;
  const name = (part: string): string => `blk.${il}.${part}`;
  const { q, k, v, gate } = projections(g, { ...hp, headDim }, il, h, { gated: outputGate, qAlone: keysOf !== undefined });
  const bounded = (t: Tensor): Tensor => (bound > 0 ? clamp(t, -bound, bound) : t);
  const turn = (t: Tensor, part: string, given: Tensor | TokenAngles | undefined): Tensor => {
    const { table, rows } = given && 'rows' in given ? given : { table: given, rows: pos };
    const rotate = (a: Tensor): Tensor => (table ? rope(a, rows, table, { mode }) : a);
    return normAfterRope ? headNorm(g, hp, rotate(t), name(part)) : rotate(headNorm(g, hp, t, name(part)));
  };
  const qr = turn(bounded(q), 'attn_q_norm', queryAngles);
  const cache = g.cache(keysOf ?? il, headDim);
  if (k && v) {
    const kr = turn(bounded(k), 'attn_k_norm', angles);
    const vn = valueNorm ? rms_norm(v, { eps: hp.eps }) : bounded(v);
    g.expand(qr, kr, vn);
    g.expand(kv_store(cache.k, kr, cells, 'k', cache.rotation.k), kv_store(cache.v, vn, cells, 'v', cache.rotation.v));
  }
  const out = attention(qr, cache.k, cache.v, first, visible, {
    scale,
    window,
    reach,
    logitSoftcap,
    maxBias,
    distances,
    sinks,
    pos: reachFrom ?? pos,
    unifiedMax: g.unifiedMax,
    rotation: cache.rotation,
  });
  const gated = gate ? mul(reshape(out, gate.ne, gate.batch), sigmoid(gate)) : out;
  const joined = reshape(gated, [nHead * headDim, h.ne[1], 1, 1], { dim: 1, by: 'tokens' });
  return headsOutput(g, hp, subNorm ? norm(g, hp, joined, name('attn_sub_norm')) : joined, name('attn_output'));
}

/** Suffix of transposed attn_output weights, which have a row for each row of a head. */
export const HEAD_ROWS = '.attn_output_t.weight';

/**
 * Output product of attention, of x [nHead * headDim, n_tokens], which has the heads' outputs.
 *
 * With `attnHeads`, if the file also has `attn_output` transposed, tokens whose results are wanted
 * (generated ones) use only their most important heads, as in Deja Vu (arXiv 2310.17157).
 * Importance is the norm of a head's output times the norm of the head's part of the weight. All
 * other tokens of a prompt use all heads. A head with NaN is never left out.
 */
function headsOutput(g: GraphContext, hp: HParams, x: Tensor, name: string): Tensor {
  const { nHead, nEmbd } = hp;
  const [n, nTokens] = x.ne;
  const rows = g.attnHeads === undefined ? undefined : g.optional(`${name}_t.weight`, [nEmbd, n]);
  if (!rows) return linear(g, x, name, nEmbd);
  const { others } = g.inputs;
  const byToken = (t: Tensor): Tensor => reshape(t, [nHead, nTokens, 1, 1], { dim: 1, by: 'tokens' });
  const byHead = (t: Tensor, ne0 = 1): Tensor => reshape(t, [ne0, nHead, nTokens, 1], TOKENS_OF_HEADS);
  const squares = reshape(g.weight(`${name}_t.squares`, [nHead]), [1, nHead, 1, 1]);
  const all = byToken(mul(sum_rows(sqr(byHead(x, n / nHead))), squares));
  const sizes = byToken(set_rows(all, scale(get_rows(all, others), 0), others));
  const best = top_k(sizes, Math.max(1, Math.round(g.attnHeads! * nHead)));
  // 0 for heads that are left out, and for all heads of `others`. NaN * 0 stays NaN, so it counts
  // as selected.
  const idx = byToken(set_rows(byHead(scale(sizes, 0)), get_rows(byHead(sizes), best), best));
  const some = linear(g, x, name, nEmbd, axpy_head(rows, x, idx));
  return reshape(set_rows(some, linear(g, get_rows(x, others), name, nEmbd), others), some.ne, some.batch);
}

/** Heads of a layer over its tokens. */
interface Projections {
  /** f32 [head_dim, n_head, n_tokens] */
  readonly q: Tensor;
  /** f32 [head_dim, n_head_kv, n_tokens] */
  readonly k?: Tensor;
  readonly v?: Tensor;
  /** As q. */
  readonly gate?: Tensor | undefined;
}

/**
 * q, k and v from three products or from a fused one; or q alone. A gate, if there is one, comes
 * with q.
 */
function projections(
  g: GraphContext,
  { nHead, nHeadKv, headDim }: HParams,
  il: number,
  h: Tensor,
  { gated, qAlone }: { readonly gated: boolean; readonly qAlone: boolean },
): Projections {
  const nTokens = h.ne[1];
  const headQ = gated ? 2 * headDim : headDim;
  const nq = nHead * headQ;
  const nk = nHeadKv * headDim;
  // A view of n heads in the rows of a product, from element `from`, `step` elements from one to
  // the next.
  const heads = (x: Tensor, n: number, from = 0, step = headDim): Tensor =>
    view(x, [headDim, n, nTokens, 1], { nb: [4 * step, x.nb[1]], offset: 4 * from }, TOKENS_OF_HEADS);
  const queries = (x: Tensor): Projections => ({
    q: heads(x, nHead, 0, headQ),
    gate: gated ? heads(x, nHead, headDim, headQ) : undefined,
  });
  const name = (part: string): string => `blk.${il}.attn_${part}`;
  if (qAlone) return queries(linear(g, h, name('q'), nq));
  if (g.has(`${name('qkv')}.weight`)) {
    const all = linear(g, h, name('qkv'), nq + 2 * nk);
    return { ...queries(all), k: heads(all, nHeadKv, nq), v: heads(all, nHeadKv, nq + nk) };
  }
  const [q, k, v] = linears(g, h, [
    [name('q'), nq],
    [name('k'), nk],
    [name('v'), nk],
  ]);
  return { ...queries(q), k: heads(k, nHeadKv), v: heads(v, nHeadKv) };
}

/**
 * Norms of q or k heads, if the file has them: one weight for all heads, a row for each head, or
 * one norm over all heads together.
 */
function headNorm(g: GraphContext, hp: HParams, x: Tensor, name: string): Tensor {
  const shape = g.shapeOf(`${name}.weight`);
  const [headDim, n, nTokens] = x.ne;
  if (!shape) return x;
  if (hp.norm === 'layer' && shape[1] > 1)
    return mul(layer_norm(x, { eps: hp.eps }), reshape(g.weight(`${name}.weight`, [headDim, n]), [headDim, n, 1, 1]));
  if (shape[0] === headDim) return norm(g, hp, x, name);
  const together = view(x, [headDim * n, nTokens, 1, 1], { nb: [x.nb[2]] }, { dim: 1, by: 'tokens' });
  return reshape(norm(g, hp, together, name), x.ne, TOKENS_OF_HEADS);
}

/**
 * Gated units: of gate and up, or of one product with both as halves of its rows. `drelu`: ReLU of
 * both (Bamboo).
 */
const GATED = {
  silu: swiglu,
  gelu: geglu,
  relu: reglu,
  drelu: (gate: Tensor, up?: Tensor): Tensor => (up ? reglu(gate, relu(up)) : reglu(relu(gate))),
} as const;

export interface FeedForwardOptions {
  /** Activation of the gate. Default 'silu'. */
  readonly act?: keyof typeof GATED;
  /** A norm `ffn_sub_norm` before the last product. */
  readonly subNorm?: boolean;
  /** Suffix of the three weights' names, such as `_shexp` for shared experts. */
  readonly suffix?: string;
  /** Default: the file's feed_forward_length. */
  readonly nFf?: number;
}

/** down(act(gate(x)) * up(x)). Gate and up may be one fused product, gate first. */
export function gatedFeedForward(
  g: GraphContext,
  hp: HParams,
  il: number,
  x: Tensor,
  { act = 'silu', subNorm = false, suffix = '', nFf = hp.nFf }: FeedForwardOptions = {},
): Tensor {
  const { nEmbd } = hp;
  const name = (part: string): string => `blk.${il}.ffn_${part}${suffix}`;
  const glu = GATED[act];
  const one = !g.has(`${name('gate')}.weight`);
  const [gate, up] = linears(
    g,
    x,
    one
      ? [[name('up'), 2 * nFf]]
      : [
          [name('gate'), nFf],
          [name('up'), nFf],
        ],
  );
  const gated = one ? glu(gate) : glu(gate, up);
  const n = hp.rotations.feedForward;
  const turned = n > 0 ? fwht(gated, { n }) : gated;
  return linear(g, subNorm ? norm(g, hp, turned, `blk.${il}.ffn_sub_norm`) : turned, name('down'), nEmbd);
}

export const relu_sqr = (x: Tensor): Tensor => sqr(relu(x));

export interface PlainFeedForwardOptions extends Pick<FeedForwardOptions, 'suffix' | 'nFf'> {
  /** Activation after up. Default gelu. */
  readonly act?: (x: Tensor) => Tensor;
}

/** down(act(up(x))). */
export function plainFeedForward(
  g: GraphContext,
  hp: HParams,
  il: number,
  x: Tensor,
  { act = gelu, suffix = '', nFf = hp.nFf }: PlainFeedForwardOptions = {},
): Tensor {
  const name = (part: string): string => `blk.${il}.ffn_${part}${suffix}`;
  return linear(g, act(linear(g, x, name('up'), nFf)), name('down'), hp.nEmbd);
}

/**
 * The end of a decoder. Only the wanted tokens go through the last norm and the largest product.
 * For embeddings and ranks, there is no output product.
 */
export function decoderOutput(g: GraphContext, hp: HParams, x: Tensor, outputNorm = 'output_norm'): Tensor {
  const last = norm(g, hp, get_rows(x, g.inputs.outputs), outputNorm);
  if (g.wants !== 'logits') return rankHead(g, hp, last);
  if (g.has('output.weight')) return linear(g, last, 'output', hp.nVocab);
  // No output matrix: the embeddings serve as one. Adapters of token_embd apply to lookups only.
  return plusBias(g, timesScale(g, mul_mat(g.weight('token_embd.weight', [hp.nEmbd, hp.nVocab]), last), 'output'), 'output');
}

/** Classifier of a reranker, if `wants` is 'ranks' and the file has one; else x. */
export function rankHead(g: GraphContext, { nEmbd }: HParams, x: Tensor): Tensor {
  if (g.wants !== 'ranks') return x;
  const pooled = g.has('cls.weight') ? tanh(linear(g, x, 'cls', nEmbd)) : x;
  const labels = g.shapeOf('cls.output.weight');
  return labels ? linear(g, pooled, 'cls.output', labels[1]) : pooled;
}
