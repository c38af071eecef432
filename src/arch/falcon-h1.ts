/** Falcon H1: attention and Mamba 2 in parallel in every layer. */
import { add } from '../graph/elementwise-ops.ts';
import { selfAttention } from './blocks.ts';
import { angles, decoder } from './llama.ts';
import { mamba2Mixer } from './recurrent.ts';

export const falconH1 = decoder('falcon-h1', (hp, g) => {
  const table = angles(hp, g);
  return {
    layer: (il) => ({ mixer: (h) => add(selfAttention(g, hp, il, h, { angles: table }), mamba2Mixer(g, hp, il, h)) }),
  };
});
