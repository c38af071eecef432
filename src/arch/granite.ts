/**
 * IBM's Granite: the Llama layer with factors on embeddings, branches, scores and logits.
 * granitemoe has experts, optionally with a shared one. granitehybrid (Granite 4) has Mamba 2 in
 * most layers, with experts or without.
 */
import { getBool, getCount, getNumber } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture } from './architecture.ts';
import { times } from './blocks.ts';
import { experts, sharedExpert } from './experts.ts';
import { decoder, type LayerOptions } from './llama.ts';
import { mamba2Mixer } from './recurrent.ts';

const graniteLike = (name: string, defaultLogitScale?: number): Architecture =>
  decoder(name, (hp, g) => {
    // 0 and absent both mean: no factor.
    const factor = (k: string): number => getNumber(g.gguf, `${name}.${k}`, 0) || 1;
    const scale = getNumber(g.gguf, `${name}.attention.scale`, 0) || 1 / Math.sqrt(hp.headDim);
    const table = getBool(g.gguf, `${name}.rope.scaling.finetuned`, true) ? g.ropeTable(hp.rope) : undefined;
    const logitScale = getNumber(g.gguf, `${name}.logit_scale`, defaultLogitScale) || 1;
    const nFfShared = getCount(g.gguf, `${name}.expert_shared_feed_forward_length`, 0);
    const branch = (il: number): LayerOptions =>
      hp.isRecurrent(il) ? { mixer: (h) => mamba2Mixer(g, hp, il, h) } : { angles: table, mode: 'normal', scale };
    const mixture = (il: number) => (h: Tensor) => {
      const routed = experts(g, hp, il, h, { normalised: true, nFf: hp.nFf });
      return nFfShared > 0 ? add(routed, sharedExpert(g, hp, il, h, nFfShared)) : routed;
    };
    return {
      embeddings: (t) => times(t, factor('embedding_scale')),
      mapsImages: true,
      layer: (il) => ({
        ...branch(il),
        residualScale: factor('residual_scale'),
        ...(hp.nExpert > 0 && { feedForward: mixture(il) }),
      }),
      logits: (t) => times(t, 1 / logitScale),
    };
  });

export const granite = graniteLike('granite');
export const graniteMoe = graniteLike('granitemoe');
export const graniteHybrid = graniteLike('granitehybrid', 0);
