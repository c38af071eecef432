/**
 * Bidirectional encoders built like Llama: ModernBERT (windows between global layers, GEGLU),
 * NeoBERT, and EuroBERT, which jina-embeddings-v5 nano uses.
 */
import { QuantletError } from '../errors.ts';
import { getNumber, getString } from '../gguf/metadata.ts';
import { norm } from './blocks.ts';
import { angles, decoder, llamaLike } from './llama.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';
import { slidingWindows } from './windows.ts';

/** Values of `hidden_activation` that mean SiLU. Anything else is GELU, as in llama.cpp. */
const SILU: ReadonlySet<string> = new Set(['silu', 'swish', 'swiglu']);

export const modernBert = decoder('modern-bert', (hp, g) => {
  if (g.wants === 'ranks')
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      'modern-bert rerankers pool before their head, which quantlet does not run yet; as an embedder the model runs with { embeddings: true }',
    );
  const window = slidingWindows(g.gguf, 'modern-bert', { pattern: 3, globalFirst: true });
  const globalAngles = g.ropeTable(hp.rope);
  const localBase = getNumber(g.gguf, 'modern-bert.rope.freq_base_swa', 10000);
  const localAngles = g.ropeTable({ ...ROPE_DEFAULTS, nDims: hp.rope.nDims, freqBase: localBase });
  const act = SILU.has(getString(g.gguf, 'modern-bert.hidden_activation', '')) ? 'silu' : 'gelu';
  return {
    embeddings: (t) => norm(g, hp, t, 'token_embd_norm'),
    layer: (il) => ({
      angles: window(il) ? localAngles : globalAngles,
      reach: window(il) ? window(il) >> 1 : undefined,
      // The first layer has no norm: it reads the normed embeddings.
      attnNorm: il === 0 && !g.has('blk.0.attn_norm.weight') ? null : 'attn_norm',
      act,
    }),
  };
});

export const neoBert = decoder('neo-bert', (hp, g) => {
  const table = angles(hp, g);
  return { layer: () => ({ angles: table, mode: 'normal' }), outputNorm: 'enc.output_norm' };
});

export const euroBert = llamaLike('eurobert', 'neox');
