/**
 * BitNet b1.58 (arXiv 2402.17764), as in llama.cpp: the Llama layer with a norm before the last
 * product of each branch.
 */
import { gatedFeedForward } from './blocks.ts';
import { angles, decoder } from './llama.ts';

export const bitnet = decoder('bitnet', (hp, g) => {
  const table = angles(hp, g);
  return {
    layer: (il) => ({ angles: table, subNorm: true, feedForward: (h) => gatedFeedForward(g, hp, il, h, { subNorm: true }) }),
  };
});
