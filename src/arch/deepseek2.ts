/**
 * DeepSeek 2 and 3 (arXiv 2405.04434), and models of that architecture (GigaChat 3, GLM 4.7 Flash):
 * latent attention; dense layers first, then experts, some of them shared by all tokens.
 *
 * Keys and values of all heads derive from one short latent vector a token, and from a rotated part
 * that all heads share. Old files have the matrix that expands the latent vector to keys and values
 * (`attn_kv_b`), so attention has ordinary heads. Newer files split that matrix in two, with a part
 * for each head. The first (`attn_k_b`) maps queries to the latent space, the second (`attn_v_b`)
 * maps attention's output to values. The cache then has one head: the latent vector and the rotated
 * part.
 */
import { QuantletError } from '../errors.ts';
import { getBool, getCount, getNumber } from '../gguf/metadata.ts';
import { attention, kv_store } from '../graph/attention-ops.ts';
import { add } from '../graph/elementwise-ops.ts';
import { mul_mat_id } from '../graph/grouped-ops.ts';
import { concat } from '../graph/ops.ts';
import { rope } from '../graph/rope.ts';
import { constant, type Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';
import type { GraphContext } from './architecture.ts';
import { linear, linears, norm, TOKENS_OF_HEADS } from './blocks.ts';
import { experts, gatingOf, sharedExpert } from './experts.ts';
import type { HParams } from './hparams.ts';
import { decoder } from './llama.ts';

/** Parameters of attention that all layers share. */
interface Latent {
  /** Dimensions of a query head. The last `nRope` of them are rotated. */
  readonly headDim: number;
  readonly nRope: number;
  readonly valueDim: number;
  /** Length of the latent vector. */
  readonly rank: number;
  readonly scale: number;
  readonly angles: Tensor;
  /** For heads with matrices of their own: i32 [n_head, n_tokens], the matrix of each column. */
  readonly heads: Tensor | undefined;
}

const key = (name: string): string => `deepseek2.${name}`;

/** @throws ERR_GGUF_INVALID, ERR_UNSUPPORTED_ARCH */
function readLatent(hp: HParams, g: GraphContext): Latent {
  const { nHead, rope } = hp;
  const has = (name: string): boolean => getCount(g.gguf, key(name), 0) > 0;
  const split = has('attention.key_length_mla');
  if (split !== has('attention.value_length_mla'))
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key(`attention.${split ? 'key' : 'value'}_length_mla`)} is there and ${split ? 'value' : 'key'}_length_mla is not; expected both or neither`,
    );
  if (getNumber(g.gguf, key('attention.temperature_scale'), 0) !== 0)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `this ${hp.arch} model's queries grow with their position (${key('attention.temperature_scale')}), which quantlet does not run yet`,
    );
  const headDim = split ? getCount(g.gguf, key('attention.key_length_mla')) : hp.headDim;
  const rank = getCount(g.gguf, key('attention.kv_lora_rank'), undefined, 1);
  const nRope = rope.nDims;
  const nHeadKv = split ? 1 : nHead;
  const wrong =
    nRope < 1 || nRope >= headDim
      ? `rope.dimension_count is ${nRope}; expected 1 to ${headDim - 1}, a part of the head`
      : hp.nHeadKv !== nHeadKv
        ? `attention.head_count_kv is ${hp.nHeadKv}; expected ${nHeadKv}`
        : split && (hp.headDim !== rank + nRope || hp.valueDim !== rank)
          ? `attention.key_length is ${hp.headDim} and value_length ${hp.valueDim}; expected ${rank + nRope} and ${rank}, by kv_lora_rank and rope.dimension_count`
          : undefined;
  if (wrong !== undefined) throw new QuantletError('ERR_GGUF_INVALID', key(wrong));
  // YaRN's magnitude as llama.cpp's deepseek2 computes it. The log multiplier in the file includes
  // the factor 0.1, which is divided out. Squared below: once for queries, once for keys.
  const growth = 0.1 * Math.log(1 / rope.freqScale);
  const logMul = getNumber(g.gguf, key('rope.scaling.yarn_log_multiplier'), 0) / 0.1;
  const magnitude = rope.attnFactor * (1 + growth) * (1 + growth * logMul);
  const numbers = constant(
    'heads',
    TYPE.i32,
    [nHead, 1, 1, 1],
    () => new Uint8Array(Int32Array.from({ length: nHead }, (_, h) => h).buffer),
  );
  return {
    headDim,
    nRope,
    rank,
    valueDim: split ? getCount(g.gguf, key('attention.value_length_mla')) : hp.valueDim,
    scale: magnitude ** 2 / Math.sqrt(headDim),
    angles: g.ropeTable(rope),
    heads: split ? view(numbers, [nHead, g.inputs.pos.ne[0], 1, 1], { nb: [0] }, { dim: 1, by: 'tokens' }) : undefined,
  };
}

/**
 * Queries, keys, values, cache, attention and the output product of layer il over the normed states
 * h.
 */
function latentAttention(g: GraphContext, hp: HParams, il: number, h: Tensor, p: Latent): Tensor {
  const { nHead, nHeadKv } = hp;
  const { headDim, nRope, rank, valueDim, heads } = p;
  const { pos, cells, first, visible } = g.inputs;
  const nTokens = h.ne[1];
  const nPlain = headDim - nRope;
  const name = (part: string): string => `blk.${il}.attn_${part}`;
  /**
   * Elements from .. from + n of each of the heads, which have `width` elements each, in rows of x.
   */
  const part = (x: Tensor, width: number, nHeads: number, n: number, from: number): Tensor =>
    view(x, [n, nHeads, nTokens, 1], { nb: [4 * width, x.nb[1]], offset: 4 * from }, TOKENS_OF_HEADS);
  const turned = (x: Tensor): Tensor => rope(x, pos, p.angles, { mode: 'normal' });

  const rankQ = g.has(`${name('q_a')}.weight`) ? getCount(g.gguf, key('attention.q_lora_rank'), undefined, 1) : 0;
  const [first_q, kv] = linears(g, h, [rankQ > 0 ? [name('q_a'), rankQ] : [name('q'), nHead * headDim], [name('kv_a_mqa'), rank + nRope]]);
  const q = rankQ > 0 ? linear(g, norm(g, hp, first_q, name('q_a_norm')), name('q_b'), nHead * headDim) : first_q;
  const latent = norm(g, hp, view(kv, [rank, nTokens, 1, 1], { nb: [kv.nb[1]] }, { dim: 1, by: 'tokens' }), name('kv_a_norm'));
  const qPlain = part(q, headDim, nHead, nPlain, 0);
  const qTurned = turned(part(q, headDim, nHead, nRope, nPlain));
  const kTurned = turned(part(kv, rank + nRope, 1, nRope, rank));

  const cache = g.cache(il, hp.headDim, hp.valueDim);
  /** Attention of all heads, concatenated: [n_head * value dimensions of the cache, n_tokens]. */
  const attend = (q: Tensor, k: Tensor, v: Tensor): Tensor => {
    g.expand(q, k, v);
    g.expand(kv_store(cache.k, k, cells, 'k', cache.rotation.k), kv_store(cache.v, v, cells, 'v', cache.rotation.v));
    return attention(q, cache.k, cache.v, first, visible, {
      scale: p.scale,
      valueDim: hp.valueDim,
      unifiedMax: g.unifiedMax,
      rotation: cache.rotation,
    });
  };
  const output = (x: Tensor): Tensor => linear(g, x, name('output'), hp.nEmbd);
  if (heads) {
    const query = mul_mat_id(g.weight(`${name('k_b')}.weight`, [nPlain, rank, nHead]), qPlain, heads);
    const one = reshape(latent, [rank, nHeadKv, nTokens, 1], TOKENS_OF_HEADS);
    const latents = attend(concat(query, qTurned, 0), concat(one, kTurned, 0), one);
    const values = mul_mat_id(
      g.weight(`${name('v_b')}.weight`, [rank, valueDim, nHead]),
      reshape(latents, [rank, nHead, nTokens, 1], TOKENS_OF_HEADS),
      heads,
    );
    return output(reshape(values, [nHead * valueDim, nTokens, 1, 1], { dim: 1, by: 'tokens' }));
  }
  const both = linear(g, latent, name('kv_b'), nHead * (nPlain + valueDim));
  const ofAll = view(kTurned, [nRope, nHead, nTokens, 1], { nb: [0, kTurned.nb[2]] }, TOKENS_OF_HEADS);
  const k = concat(part(both, nPlain + valueDim, nHead, nPlain, 0), ofAll, 0);
  return output(attend(concat(qPlain, qTurned, 0), k, part(both, nPlain + valueDim, nHead, valueDim, nPlain)));
}

export const deepseek2 = decoder('deepseek2', (hp, g) => {
  const latent = readLatent(hp, g);
  const nDense = getCount(g.gguf, key('leading_dense_block_count'), 0);
  const nShared = getCount(g.gguf, key('expert_shared_count'));
  // GLM 4.7 Flash: its files do not state the gating, so recognise it by layers and vocabulary.
  const gating = gatingOf(g, 'deepseek2', [47, 48].includes(hp.nLayer) && hp.nVocab === 154880 ? 'sigmoid' : 'softmax');
  const normalised = getBool(g.gguf, key('expert_weights_norm'), false);
  const weightsScale = getNumber(g.gguf, key('expert_weights_scale'), 1);
  const mixture = (il: number) => (h: Tensor) => {
    const routed = experts(g, hp, il, h, { gating, normalised, weightsScale });
    return nShared > 0 ? add(routed, sharedExpert(g, hp, il, h, nShared * hp.nFfExpert)) : routed;
  };
  return {
    // Layers after these predict further tokens (MTP).
    nLayer: hp.nLayer - getCount(g.gguf, key('nextn_predict_layers'), 0, 0, hp.nLayer - 1),
    layer: (il) => ({
      mixer: (h) => latentAttention(g, hp, il, h, latent),
      ...(il >= nDense && { feedForward: mixture(il) }),
    }),
  };
});
