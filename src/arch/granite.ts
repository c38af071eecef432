/** IBM's Granite: the llama layer with factors on embeddings, branches, scores and logits; Granite 4 has Mamba 2 in most layers. */
import { getBool, getNumber } from '../gguf/metadata.ts';
import { times } from './blocks.ts';
import { decoder, type LayerOptions } from './llama.ts';
import { mamba2Mixer } from './recurrent.ts';

const graniteLike = (name: string, logitScale?: number): ReturnType<typeof decoder> =>
  decoder(name, (hp, g) => {
    // 0 and absent both mean: no factor.
    const factor = (k: string): number => getNumber(g.gguf, `${name}.${k}`, 0) || 1;
    const scale = getNumber(g.gguf, `${name}.attention.scale`, 0) || 1 / Math.sqrt(hp.headDim);
    const table = getBool(g.gguf, `${name}.rope.scaling.finetuned`, true) ? g.ropeTable(hp.rope) : undefined;
    const divisor = getNumber(g.gguf, `${name}.logit_scale`, logitScale) || 1;
    const branch = (il: number): LayerOptions =>
      hp.isRecurrent(il) ? { mixer: (h) => mamba2Mixer(g, hp, il, h) } : { angles: table, mode: 'normal', scale };
    return {
      embeddings: (t) => times(t, factor('embedding_scale')),
      layer: (il) => ({ ...branch(il), residualScale: factor('residual_scale') }),
      logits: (t) => times(t, 1 / divisor),
    };
  });

export const granite = graniteLike('granite');
export const graniteHybrid = graniteLike('granitehybrid', 0);
