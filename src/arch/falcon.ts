/**
 * Falcon 7B and 40B: layer norms, attention and feed-forward in parallel (in 40B with a norm each).
 * PowerInfer's files have ReLU in place of GELU.
 */
import { norm, plainFeedForward } from './blocks.ts';
import { angles, decoder } from './llama.ts';
import { reluFeedForward, reluUnit } from './sparse.ts';

export const falcon = decoder('falcon', (hp, g) => {
  const table = angles(hp, g);
  const unit = reluUnit(g.gguf);
  return {
    layer(il) {
      const two = g.has(`blk.${il}.attn_norm_2.weight`);
      return {
        angles: table,
        parallel: true,
        attnNorm: two ? 'attn_norm_2' : 'attn_norm',
        feedForward(h, layerInput) {
          const f = two ? norm(g, hp, layerInput, `blk.${il}.attn_norm`) : h;
          return unit ? reluFeedForward(g, hp, il, unit, f, layerInput) : plainFeedForward(g, hp, il, f);
        },
      };
    },
  };
});
