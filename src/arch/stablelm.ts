/** StableLM 2: layer norms, rope on the first dimensions of a head; without ffn_norm both branches read the same norm (12B). */
import { add } from '../graph/elementwise-ops.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, gatedFeedForward, norm, selfAttention } from './blocks.ts';

export const stablelm: Architecture = {
  name: 'stablelm',
  build(hp, g) {
    const angles = g.ropeTable(hp.rope);
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) {
      const h = norm(g, hp, x, `blk.${il}.attn_norm`);
      const y = add(selfAttention(g, hp, il, h, { angles }), x);
      x = add(gatedFeedForward(g, hp, il, g.has(`blk.${il}.ffn_norm.weight`) ? norm(g, hp, y, `blk.${il}.ffn_norm`) : h), y);
    }
    return decoderOutput(g, hp, x);
  },
};
