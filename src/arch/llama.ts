/** Llama 1 to 3 and everything that ships under its name (Mistral, SmolLM, TinyLlama); SmolLM3 leaves rope out in every fourth layer. */
import { add } from '../graph/elementwise-ops.ts';
import type { RopeMode } from '../graph/rope.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { decoderOutput, embed, gatedFeedForward, norm, selfAttention, type AttentionOptions } from './blocks.ts';
import type { HParams } from './hparams.ts';

/** The common decoder layer: x += attention(norm(x)), x += gated(norm(x)). */
export function llamaLayer(g: GraphContext, hp: HParams, il: number, x: Tensor, options: AttentionOptions): Tensor {
  const y = add(selfAttention(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`), options), x);
  return add(gatedFeedForward(g, hp, il, norm(g, hp, y, `blk.${il}.ffn_norm`)), y);
}

/** A decoder of such layers; `mode`: which pairs of a head rope turns. */
export function llamaLike(name: string, mode: RopeMode, ropeInLayer: (il: number) => boolean = () => true): Architecture {
  return {
    name,
    build(hp, g) {
      const angles = g.ropeTable(hp.rope, 'rope_freqs.weight');
      let x = embed(g, hp);
      for (let il = 0; il < hp.nLayer; il++) x = llamaLayer(g, hp, il, x, { angles: ropeInLayer(il) ? angles : undefined, mode });
      return decoderOutput(g, hp, x);
    },
  };
}

export const llama = llamaLike('llama', 'normal');

/** No key says which layers go without: it is every fourth. */
export const smollm3 = llamaLike('smollm3', 'normal', (il) => (il + 1) % 4 !== 0);
