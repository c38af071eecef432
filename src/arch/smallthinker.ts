/**
 * SmallThinker (arXiv 2507.20984): the router reads a layer's input, before attention; ReLU
 * experts. In models with windows, global layers have no rope.
 */
import { getCount } from '../gguf/metadata.ts';
import { experts, gatingOf, routerScores } from './experts.ts';
import { decoder } from './llama.ts';
import { localAngles, slidingWindows } from './windows.ts';

/** llama.cpp uses this window whenever there is one, whatever the file's value. */
const WINDOW = 4096;

export const smallthinker = decoder('smallthinker', (hp, g) => {
  const gating = gatingOf(g, 'smallthinker', 'softmax');
  const window = slidingWindows(g.gguf, 'smallthinker', { pattern: 4, globalFirst: true });
  const hasWindows = getCount(g.gguf, 'smallthinker.attention.sliding_window', 0) > 0;
  const table = g.ropeTable(hp.rope);
  const local = localAngles(hp, g);
  return {
    layer: (il) => ({
      angles: window(il) ? local : hasWindows && il % 4 === 0 ? undefined : table,
      window: window(il) ? WINDOW : 0,
      feedForward: (h, layerInput) =>
        experts(g, hp, il, h, { gating, normalised: true, act: 'relu', scores: routerScores(g, hp, il, layerInput) }),
    }),
  };
});
