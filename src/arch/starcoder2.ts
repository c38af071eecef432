/** StarCoder 2: layer norms and biases throughout, a feed-forward without a gate. */
import { add } from '../graph/elementwise-ops.ts';
import type { Architecture } from './architecture.ts';
import { decoderOutput, embed, norm, plainFeedForward, selfAttention } from './blocks.ts';

export const starcoder2: Architecture = {
  name: 'starcoder2',
  build(hp, g) {
    const angles = g.ropeTable(hp.rope);
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) {
      x = add(selfAttention(g, hp, il, norm(g, hp, x, `blk.${il}.attn_norm`), { angles }), x);
      x = add(plainFeedForward(g, hp, il, norm(g, hp, x, `blk.${il}.ffn_norm`)), x);
    }
    return decoderOutput(g, hp, x);
  },
};
