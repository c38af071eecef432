/**
 * Gemma 4 (E2B, E4B): Gemma's layers. Local layers have heads of another size, and the last layers
 * read the keys and values of earlier ones. Each layer also adds an embedding of each token for
 * that layer ("per-layer embeddings").
 */
import { QuantletError } from '../errors.ts';
import { getCount, getNumber, getNumberPerLayer } from '../gguf/metadata.ts';
import { add, gelu, mul, soft_cap } from '../graph/elementwise-ops.ts';
import { mul_mat } from '../graph/ops.ts';
import { rms_norm } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import type { GraphContext } from './architecture.ts';
import { gatedFeedForward, linear, norm, times } from './blocks.ts';
import type { HParams } from './hparams.ts';
import { decoder } from './llama.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';
import { slidingWindows, windowOf } from './windows.ts';

/**
 * Models in which only the first `own` layers have keys: maps a later layer to the layer whose keys
 * it reads, the last local or the last global one of the first.
 * @throws ERR_GGUF_INVALID
 */
export function lentKeys(hp: HParams, window: (il: number) => number, own: number): (il: number) => number | undefined {
  const keysOf = (il: number): number | undefined => (il < own ? undefined : own - (window(il) ? 2 : 1));
  for (let il = own; il < hp.nLayer; il++)
    if (window(il) > 0 !== window(keysOf(il)!) > 0)
      throw new QuantletError(
        'ERR_GGUF_INVALID',
        `layer ${il} would read the keys of layer ${keysOf(il)}, but only one of them has a window: the file is damaged or of another variant`,
      );
  return keysOf;
}

/**
 * Per-layer embeddings, from a token's id and from its scaled embedding x: layer il -> f32 [n,
 * n_tokens]. Tokens of images have the id 0, and so the embeddings of padding.
 */
export function perLayerEmbeddings(g: GraphContext, { nLayer, nEmbd, nVocab, eps }: HParams, n: number, x: Tensor): (il: number) => Tensor {
  const ofLayers = (t: Tensor): Tensor => reshape(t, [n, nLayer, x.ne[1], 1], { dim: 2, by: 'tokens' });
  const own = times(g.tokenRows(g.weight('per_layer_token_embd.weight', [n * nLayer, nVocab])), Math.sqrt(n));
  const projected = times(mul_mat(g.weight('per_layer_model_proj.weight', [nEmbd, n * nLayer]), x), 1 / Math.sqrt(nEmbd));
  const normed = rms_norm(ofLayers(projected), { weight: g.weight('per_layer_proj_norm.weight', [n]), eps });
  const sum = times(add(normed, ofLayers(own)), Math.SQRT1_2);
  return (il) => view(sum, [n, x.ne[1], 1, 1], { nb: [sum.nb[2]], offset: il * sum.nb[1] }, { dim: 1, by: 'tokens' });
}

export const gemma4 = decoder('gemma4', (hp, g) => {
  const key = (k: string): string => `gemma4.${k}`;
  const count = (k: string, fallback?: number, least = 0): number => getCount(g.gguf, key(k), fallback, least);
  if (count('expert_count', 0) > 0)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      'this gemma4 model is a mixture of experts, which quantlet does not run yet; use E2B or E4B',
    );
  const window = slidingWindows(g.gguf, 'gemma4', { pattern: 6 });
  const localDim = count('attention.key_length_swa', undefined, 1);
  const ownKeys = hp.nLayer - count('attention.shared_kv_layers', 0);
  if (ownKeys < 2)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key('attention.shared_kv_layers')} leaves ${ownKeys} layers with keys of their own; expected 2 or more`,
    );
  const keysOf = lentKeys(hp, window, ownKeys);
  const nFf = getNumberPerLayer(g.gguf, key('feed_forward_length'), hp.nLayer);
  const globalAngles = g.ropeTable(hp.rope, 'rope_freqs.weight');
  const localAngles = g.ropeTable({
    ...ROPE_DEFAULTS,
    nDims: count('rope.dimension_count_swa', localDim),
    freqBase: getNumber(g.gguf, key('rope.freq_base_swa'), 10000),
  });
  const finalCap = getNumber(g.gguf, key('final_logit_softcapping'), 0);
  const nPerLayer = count('embedding_length_per_layer_input', 0);
  let perLayer: ((il: number) => Tensor) | undefined;

  /** The states plus the token's embedding of this layer, times the layer's factor. */
  const result = (il: number, x: Tensor): Tensor => {
    const name = (part: string): string => `blk.${il}.${part}`;
    let y = x;
    if (perLayer) {
      const gated = mul(gelu(linear(g, x, name('inp_gate'), nPerLayer)), perLayer(il));
      y = add(norm(g, hp, linear(g, gated, name('proj'), hp.nEmbd), name('post_norm')), x);
    }
    const factor = g.optional(name('layer_output_scale.weight'), [1]);
    return factor ? mul(y, factor) : y;
  };

  return {
    embeddings: (t) => times(t, Math.sqrt(hp.nEmbd)),
    start(x) {
      if (nPerLayer > 0) perLayer = perLayerEmbeddings(g, hp, nPerLayer, x);
    },
    layer: (il) => ({
      angles: window(il) ? localAngles : globalAngles,
      headDim: window(il) ? localDim : hp.headDim,
      scale: 1,
      // Only windows let the tokens of an image see ahead.
      ...(window(il) ? windowOf(g, window(il)) : { visible: g.images?.causal }),
      keysOf: keysOf(il),
      valueNorm: true,
      norms: 'both',
      feedForward: (h) => gatedFeedForward(g, { ...hp, nFf: nFf[il] }, il, h, { act: 'gelu' }),
      result: (x) => result(il, x),
    }),
    logits: (t) => (finalCap > 0 ? soft_cap(t, finalCap) : t),
  };
});
