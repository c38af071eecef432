/** StarCoder 2: layer norms and biases everywhere, a feed-forward without a gate. */
import { plainFeedForward } from './blocks.ts';
import { angles, decoder } from './llama.ts';

export const starcoder2 = decoder('starcoder2', (hp, g) => {
  const table = angles(hp, g);
  return { layer: (il) => ({ angles: table, feedForward: (h) => plainFeedForward(g, hp, il, h) }) };
});
