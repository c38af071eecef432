/**
 * ByteDance's Seed OSS: Llama with biases on q, k and v. The norm before the feed-forward is named
 * post_attention_norm.
 */
import { angles, decoder } from './llama.ts';

export const seedOss = decoder('seed_oss', (hp, g) => {
  const table = angles(hp, g);
  return { layer: () => ({ angles: table, ffnNorm: 'post_attention_norm' }) };
});
