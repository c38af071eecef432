/** BitNet b1.58 (arXiv 2402.17764), as llama.cpp runs it: the Llama layer with a norm before each product that ends a branch. */
import { add } from '../graph/elementwise-ops.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, gatedFeedForward, norm, selfAttention } from './blocks.ts';

export const bitnet: Architecture = {
  name: 'bitnet',
  build(hp, g) {
    const angles = g.ropeTable(hp.rope);
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) {
      x = add(selfAttention(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`), { angles, subNorm: true }), x);
      x = add(gatedFeedForward(g, hp, il, norm(g, hp, x, `blk.${il}.ffn_norm`), { subNorm: true }), x);
    }
    return decoderOutput(g, hp, x);
  },
};
