/**
 * Cohere's Command R and R7B: attention and feed-forward in parallel after one layer norm, and
 * scaled logits. R7B has windows, and rope only in the layers with a window.
 */
import { getNumber } from '../gguf/metadata.ts';
import { times } from './blocks.ts';
import { angles, decoder } from './llama.ts';
import { slidingWindows } from './windows.ts';

export const commandR = decoder('command-r', (hp, g) => {
  const table = angles(hp, g);
  const logitScale = getNumber(g.gguf, 'command-r.logit_scale', 0) || 1;
  return { layer: () => ({ angles: table, mode: 'normal', parallel: true }), logits: (t) => times(t, logitScale) };
});

export const cohere2 = decoder('cohere2', (hp, g) => {
  const window = slidingWindows(g.gguf, 'cohere2', { pattern: 4 });
  const table = angles(hp, g);
  const logitScale = getNumber(g.gguf, 'cohere2.logit_scale') || 1;
  return {
    layer: (il) => ({ angles: window(il) ? table : undefined, mode: 'normal', window: window(il), parallel: true }),
    logits: (t) => times(t, logitScale),
  };
});
