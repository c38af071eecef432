/** Gemma 2 and 3: scaled embeddings, a norm behind each branch, GELU gates, local layers with a sliding window between global ones. */
import { getNumber } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { add, scale, soft_cap } from '../graph/elementwise-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, gatedFeedForward, norm, selfAttention } from './blocks.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';

interface Variant {
  readonly window: number;
  readonly pattern: number;
  readonly attnCap: number;
  readonly finalCap: number;
  /** Layers of the one model of the family (27B) that scales scores by n_embd / n_head. */
  readonly wideLayers: number;
  /** Local layers keep the trained frequency base and scaling. */
  readonly localKeepsRope: boolean;
}

/** Local where the list says so, or in all but the last of each `pattern` layers. */
function localLayers(gguf: GGUF, name: string, pattern: number): (il: number) => boolean {
  const value = gguf.metadata.get(`${name}.attention.sliding_window_pattern`);
  if (Array.isArray(value)) return (il) => Boolean(value[il]);
  const n = typeof value === 'number' ? value : pattern;
  return (il) => n === 0 || il % n < n - 1;
}

const gemma = (name: string, variant: Variant): Architecture => ({
  name,
  build(hp, g) {
    const key = (k: string, fallback: number): number => getNumber(g.gguf, `${name}.${k}`, fallback);
    const window = key('attention.sliding_window', variant.window);
    const isLocal = localLayers(g.gguf, name, variant.pattern);
    const attnCap = variant.attnCap ? key('attn_logit_softcapping', variant.attnCap) : 0;
    const finalCap = key('final_logit_softcapping', variant.finalCap);
    const globalAngles = g.ropeTable(hp.rope);
    const localBase = key('rope.freq_base_swa', variant.localKeepsRope ? hp.rope.freqBase : 10000);
    const localAngles = g.ropeTable(
      variant.localKeepsRope ? { ...hp.rope, freqBase: localBase } : { ...ROPE_DEFAULTS, nDims: hp.rope.nDims, freqBase: localBase },
    );
    const attnScale = 1 / Math.sqrt(hp.nLayer === variant.wideLayers ? hp.nEmbd / hp.nHead : hp.headDim);

    let x: Tensor = scale(embed(g, hp), Math.sqrt(hp.nEmbd));
    for (let il = 0; il < hp.nLayer; il++) {
      const local = window > 0 && isLocal(il);
      const options = { angles: local ? localAngles : globalAngles, scale: attnScale, window: local ? window : 0, logitSoftcap: attnCap };
      const attn = selfAttention(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`), options);
      x = add(norm(g, hp, attn, `blk.${il}.post_attention_norm`), x);
      const ffn = gatedFeedForward(g, hp, il, norm(g, hp, x, `blk.${il}.ffn_norm`), { act: 'gelu' });
      x = add(norm(g, hp, ffn, `blk.${il}.post_ffw_norm`), x);
    }
    const out = decoderOutput(g, hp, x);
    return g.wants === 'logits' && finalCap > 0 ? soft_cap(out, finalCap) : out;
  },
});

export const gemma2 = gemma('gemma2', { window: 4096, pattern: 2, attnCap: 50, finalCap: 30, wideLayers: 46, localKeepsRope: true });
export const gemma3 = gemma('gemma3', { window: 0, pattern: 6, attnCap: 0, finalCap: 0, wideLayers: 62, localKeepsRope: false });
