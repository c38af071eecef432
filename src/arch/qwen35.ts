/** Qwen 3.5: three layers of gated delta nets, then one of attention whose output has a gate. */
import { getCount } from '../gguf/metadata.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';
import { angles, decoder, multimodalAngles } from './llama.ts';
import { deltaMixer } from './recurrent.ts';

/** Recurrent where the list says so, or in all but the last of every full_attention_interval layers. */
function recurrentLayers({ arch }: HParams, g: GraphContext): (il: number) => boolean {
  const listed = g.gguf.metadata.get(`${arch}.attention.recurrent_layers`);
  if (Array.isArray(listed)) return (il) => Boolean(listed[il]);
  const interval = getCount(g.gguf, `${arch}.full_attention_interval`, 4, 1);
  return (il) => (il + 1) % interval !== 0;
}

export const qwen35: Architecture = decoder('qwen35', (hp, g) => {
  const table = multimodalAngles(hp, g, true) ?? angles(hp, g);
  const isRecurrent = recurrentLayers(hp, g);
  return {
    // Layers behind these predict further tokens (MTP).
    nLayer: hp.nLayer - getCount(g.gguf, `${hp.arch}.nextn_predict_layers`, 0, 0, hp.nLayer - 1),
    layer: (il) => ({
      ffnNorm: 'post_attention_norm',
      ...(isRecurrent(il) ? { mixer: (h) => deltaMixer(g, hp, il, h) } : { angles: table, outputGate: true }),
    }),
  };
});
