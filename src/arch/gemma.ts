/**
 * Gemma 2, 3 and EmbeddingGemma: scaled embeddings, norms before and after each branch, GELU gates,
 * local layers with a sliding window between global ones.
 */
import { getNumber } from '../gguf/metadata.ts';
import { soft_cap } from '../graph/elementwise-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { linear, times, type AttentionOptions } from './blocks.ts';
import { decoder } from './llama.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';
import { slidingWindows, windowOf, type WindowDefaults } from './windows.ts';

interface Variant extends WindowDefaults {
  readonly attnCap: number;
  readonly finalCap: number;
  /**
   * Number of layers of the one model (27B) whose scores are scaled by 1 / sqrt(n_embd / n_head).
   */
  readonly wideLayers: number;
  /** Local layers use the same frequency base and scaling as global ones. */
  readonly localKeepsRope: boolean;
}

/**
 * A product after the last norm, if the file has it (EmbeddingGemma). It may precede pooling,
 * because a mean of products is the product of the mean.
 */
function dense(g: GraphContext, x: Tensor, name: string): Tensor {
  const shape = g.shapeOf(`${name}.weight`);
  return shape ? linear(g, x, name, shape[1]) : x;
}

const gemma = (name: string, variant: Variant): Architecture =>
  decoder(name, (hp, g) => {
    const key = (k: string, fallback: number): number => getNumber(g.gguf, `${name}.${k}`, fallback);
    const window = slidingWindows(g.gguf, name, variant);
    const logitSoftcap = variant.attnCap ? key('attn_logit_softcapping', variant.attnCap) : 0;
    const finalCap = key('final_logit_softcapping', variant.finalCap);
    // In models for embeddings only, tokens attend in both directions.
    const sees = (n: number): AttentionOptions => (hp.causal ? windowOf(g, n) : { reach: n ? n >> 1 : undefined });
    const globalAngles = g.ropeTable(hp.rope);
    const localBase = key('rope.freq_base_swa', variant.localKeepsRope ? hp.rope.freqBase : 10000);
    const localAngles = g.ropeTable(
      variant.localKeepsRope ? { ...hp.rope, freqBase: localBase } : { ...ROPE_DEFAULTS, nDims: hp.rope.nDims, freqBase: localBase },
    );
    return {
      embeddings: (t) => times(t, Math.sqrt(hp.nEmbd)),
      layer: (il) => ({
        angles: window(il) ? localAngles : globalAngles,
        scale: 1 / Math.sqrt(hp.nLayer === variant.wideLayers ? hp.nEmbd / hp.nHead : hp.headDim),
        ...sees(window(il)),
        logitSoftcap,
        norms: 'both',
        act: 'gelu',
      }),
      logits: (t) => (finalCap > 0 ? soft_cap(t, finalCap) : t),
      vectors: (t) => ['dense_2', 'dense_3'].reduce((x, name) => dense(g, x, name), t),
    };
  });

export const gemma2 = gemma('gemma2', { window: 4096, pattern: 2, attnCap: 50, finalCap: 30, wideLayers: 46, localKeepsRope: true });
export const gemma3 = gemma('gemma3', { pattern: 6, attnCap: 0, finalCap: 0, wideLayers: 62, localKeepsRope: false });
export const gemmaEmbedding = gemma('gemma-embedding', { pattern: 6, attnCap: 0, finalCap: 0, wideLayers: 0, localKeepsRope: false });
