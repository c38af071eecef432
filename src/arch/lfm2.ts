/**
 * Liquid's LFM2: short convolutions in layers without KV heads, attention in the others. lfm2moe
 * has experts after its first layers.
 */
import { getCount } from '../gguf/metadata.ts';
import { experts, gatingOf } from './experts.ts';
import { decoder } from './llama.ts';
import { shortConv } from './recurrent.ts';

const lfm2Like = (name: string) =>
  decoder(name, (hp, g) => {
    const angles = g.ropeTable(hp.rope);
    const window = getCount(g.gguf, `${name}.attention.sliding_window`, 0);
    const gating = gatingOf(g, name, 'sigmoid');
    const nDense = hp.nExpert > 0 ? getCount(g.gguf, `${name}.leading_dense_block_count`, 0) : hp.nLayer;
    return {
      layer: (il) => ({
        ...(hp.isRecurrent(il) ? { mixer: (h) => shortConv(g, hp, il, h) } : { angles, window }),
        ...(il >= nDense && { feedForward: (h) => experts(g, hp, il, h, { gating, normalised: true }) }),
      }),
      outputNorm: 'token_embd_norm',
    };
  });

export const lfm2 = lfm2Like('lfm2');
export const lfm2moe = lfm2Like('lfm2moe');
