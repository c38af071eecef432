/** Liquid's LFM2: short convolutions, and attention where a layer has heads of keys and values. */
import { getCount } from '../gguf/metadata.ts';
import { decoder } from './llama.ts';
import { shortConv } from './recurrent.ts';

export const lfm2 = decoder('lfm2', (hp, g) => {
  const angles = g.ropeTable(hp.rope);
  const window = getCount(g.gguf, 'lfm2.attention.sliding_window', 0);
  return {
    layer: (il) => (hp.isRecurrent(il) ? { mixer: (h) => shortConv(g, hp, il, h) } : { angles, window }),
    outputNorm: 'token_embd_norm',
  };
});
