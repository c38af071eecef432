/**
 * OpenAI's gpt-oss: windows in every second layer, attention sinks, and experts with biases,
 * weighted by a softmax over the chosen ones.
 */
import { experts } from './experts.ts';
import { decoder } from './llama.ts';
import { localAngles, slidingWindows } from './windows.ts';

export const gptOss = decoder('gpt-oss', (hp, g) => {
  const window = slidingWindows(g.gguf, 'gpt-oss', { pattern: 2 });
  const table = g.ropeTable(hp.rope);
  const local = localAngles(hp, g);
  return {
    layer: (il) => ({
      angles: window(il) ? local : table,
      window: window(il),
      sinks: g.weight(`blk.${il}.attn_sinks.weight`, [hp.nHead]),
      ffnNorm: 'post_attention_norm',
      feedForward: (h) => experts(g, hp, il, h, { gating: 'softmaxOfChosen', act: 'swiglu_oai' }),
    }),
  };
});
