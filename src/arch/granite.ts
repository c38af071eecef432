/** IBM's Granite: the llama layer with factors on embeddings, branches, scores and logits. */
import { getBool, getNumber } from '../gguf/metadata.ts';
import { add, scale } from '../graph/elementwise-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, gatedFeedForward, norm, selfAttention } from './blocks.ts';

export const granite: Architecture = {
  name: 'granite',
  build(hp, g) {
    // 0 and absent both mean: no factor.
    const factor = (k: string): number => getNumber(g.gguf, `granite.${k}`, 0) || 1;
    const times = (x: Tensor, s: number): Tensor => (s === 1 ? x : scale(x, s));
    const residual = factor('residual_scale');
    const attnScale = getNumber(g.gguf, 'granite.attention.scale', 0) || 1 / Math.sqrt(hp.headDim);
    const angles = getBool(g.gguf, 'granite.rope.scaling.finetuned', true) ? g.ropeTable(hp.rope) : undefined;
    let x = times(embed(g, hp), factor('embedding_scale'));
    for (let il = 0; il < hp.nLayer; il++) {
      const attn = selfAttention(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`), { angles, mode: 'normal', scale: attnScale });
      x = add(times(attn, residual), x);
      x = add(times(gatedFeedForward(g, hp, il, norm(g, hp, x, `blk.${il}.ffn_norm`)), residual), x);
    }
    const out = decoderOutput(g, hp, x);
    return g.wants === 'logits' ? times(out, 1 / getNumber(g.gguf, 'granite.logit_scale')) : out;
  },
};
