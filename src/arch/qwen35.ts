/**
 * Qwen 3 Next and 3.5: three layers of gated delta nets, then one of attention with a gated output.
 * Qwen 3 Next and the larger models of 3.5 have experts, one of them shared.
 */
import { getCount } from '../gguf/metadata.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import type { HParams } from './hparams.ts';
import { angles, decoder, multimodalAngles } from './llama.ts';
import { qwenExperts } from './qwen.ts';
import { deltaMixer } from './recurrent.ts';

/**
 * Layers that are recurrent: those in the metadata's list, or all but the last of every
 * full_attention_interval layers.
 */
function recurrentLayers({ arch }: HParams, g: GraphContext): (il: number) => boolean {
  const listed = g.gguf.metadata.get(`${arch}.attention.recurrent_layers`);
  if (Array.isArray(listed)) return (il) => Boolean(listed[il]);
  const interval = getCount(g.gguf, `${arch}.full_attention_interval`, 4, 1);
  return (il) => (il + 1) % interval !== 0;
}

const hybrid = (name: string, mixture: boolean): Architecture =>
  decoder(name, (hp, g) => {
    const table = multimodalAngles(hp, g, true) ?? angles(hp, g);
    const isRecurrent = recurrentLayers(hp, g);
    const feedForward = qwenExperts(hp, g, { normalised: true });
    return {
      layer: (il) => ({
        ffnNorm: 'post_attention_norm',
        ...(isRecurrent(il) ? { mixer: (h) => deltaMixer(g, hp, il, h) } : { angles: table, outputGate: true }),
        ...(mixture && { feedForward: (h) => feedForward(il, h) }),
      }),
    };
  });

export const qwen35 = hybrid('qwen35', false);
export const qwen35moe = hybrid('qwen35moe', true);
export const qwen3next = hybrid('qwen3next', true);
