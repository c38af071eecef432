/** IBM's Granite: the llama layer with factors on embeddings, branches, scores and logits. */
import { getBool, getNumber } from '../gguf/metadata.ts';
import { times } from './blocks.ts';
import { decoder } from './llama.ts';

export const granite = decoder('granite', (hp, g) => {
  // 0 and absent both mean: no factor.
  const factor = (k: string): number => getNumber(g.gguf, `granite.${k}`, 0) || 1;
  const scale = getNumber(g.gguf, 'granite.attention.scale', 0) || 1 / Math.sqrt(hp.headDim);
  const table = getBool(g.gguf, 'granite.rope.scaling.finetuned', true) ? g.ropeTable(hp.rope) : undefined;
  const logitScale = getNumber(g.gguf, 'granite.logit_scale');
  return {
    embeddingScale: factor('embedding_scale'),
    layer: () => ({ angles: table, mode: 'normal', scale, residualScale: factor('residual_scale') }),
    logits: (t) => times(t, 1 / logitScale),
  };
});
