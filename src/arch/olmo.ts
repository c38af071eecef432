/**
 * OLMo: norms without weights, and q, k and v clamped. OLMo 2 and 3: norms after the branches, and
 * norms over all heads of q and of k together. OLMo 3 has windows, and no rope scaling in the
 * layers with a window. OLMoE has experts.
 */
import { getNumber } from '../gguf/metadata.ts';
import { experts } from './experts.ts';
import { angles, decoder } from './llama.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';
import { slidingWindows } from './windows.ts';

export const olmo = decoder('olmo', (hp, g) => {
  const table = angles(hp, g);
  const bound = getNumber(g.gguf, 'olmo.attention.clamp_kqv', 0);
  return { layer: () => ({ angles: table, mode: 'normal', bound }) };
});

export const olmo2 = decoder('olmo2', (hp, g) => {
  const window = slidingWindows(g.gguf, 'olmo2', { pattern: 4 });
  const all = angles(hp, g);
  const local = g.ropeTable({ ...ROPE_DEFAULTS, nDims: hp.rope.nDims, freqBase: hp.rope.freqBase });
  return { layer: (il) => ({ angles: window(il) ? local : all, window: window(il), norms: 'behind' }) };
});

export const olmoe = decoder('olmoe', (hp, g) => {
  const table = angles(hp, g);
  return { layer: (il) => ({ angles: table, feedForward: (h) => experts(g, hp, il, h, { nFf: hp.nFf }) }) };
});
