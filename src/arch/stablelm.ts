/**
 * StableLM 2: layer norms, rope on the first dimensions of a head. Without ffn_norm (12B), both
 * branches read the same normed states.
 */
import { angles, decoder } from './llama.ts';

export const stablelm = decoder('stablelm', (hp, g) => {
  const table = angles(hp, g);
  return { layer: (il) => ({ angles: table, parallel: !g.has(`blk.${il}.ffn_norm.weight`) }) };
});
