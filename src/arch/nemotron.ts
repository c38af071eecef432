/**
 * Nemotron H and Nemotron 3. Each layer has one branch: Mamba 2, attention without rope, or a
 * feed-forward with relu^2, which nemotron_h_moe replaces by experts.
 */
import { getBool, getCount, getNumber, getNumberPerLayer } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { decoderOutput, embed, linear, norm, plainFeedForward, relu_sqr, selfAttention } from './blocks.ts';
import { experts, routerScores } from './experts.ts';
import type { HParams } from './hparams.ts';
import { mamba2Mixer } from './recurrent.ts';

/**
 * Routed experts, which may have fewer dimensions than the model ("latent"), plus a shared expert.
 */
function mixture(g: GraphContext, hp: HParams, nFf: readonly number[]): (il: number, h: Tensor) => Tensor {
  const key = (k: string): string => `${hp.arch}.${k}`;
  const nLatent = getCount(g.gguf, key('moe_latent_size'), 0) || hp.nEmbd;
  const nFfShared = getCount(g.gguf, key('expert_shared_feed_forward_length'), undefined, 1);
  const hasWidth = g.gguf.metadata.has(key('expert_feed_forward_length'));
  const weighing = {
    gating: 'sigmoid',
    normalised: getBool(g.gguf, key('expert_weights_norm'), false),
    weightsScale: getNumber(g.gguf, key('expert_weights_scale'), 0) || 1,
  } as const;
  return (il, h) => {
    const name = (part: string): string => `blk.${il}.ffn_${part}`;
    const latent = nLatent === hp.nEmbd ? h : linear(g, h, name('latent_down'), nLatent);
    const routed = experts(g, { ...hp, nEmbd: nLatent }, il, latent, {
      ...weighing,
      act: 'relu_sqr',
      nFf: hasWidth ? hp.nFfExpert : Math.floor(nFf[il] / hp.nExpertUsed[il]),
      scores: routerScores(g, hp, il, h),
    });
    const shared = plainFeedForward(g, hp, il, h, { act: relu_sqr, suffix: '_shexp', nFf: nFfShared });
    return add(nLatent === hp.nEmbd ? routed : linear(g, routed, name('latent_up'), hp.nEmbd), shared);
  };
}

const nemotron = (name: string): Architecture => ({
  name,
  build(hp, g) {
    const nFf = getNumberPerLayer(g.gguf, `${name}.feed_forward_length`, hp.nLayer);
    const feedForward =
      hp.nExpert > 0
        ? mixture(g, hp, nFf)
        : (il: number, h: Tensor): Tensor => plainFeedForward(g, hp, il, h, { act: relu_sqr, nFf: nFf[il] });
    const branch = (il: number, h: Tensor): Tensor => {
      if (nFf[il] > 0) return feedForward(il, h);
      return hp.isRecurrent(il) ? mamba2Mixer(g, hp, il, h) : selfAttention(g, hp, il, h, {});
    };
    let x = embed(g, hp);
    for (let il = 0; il < hp.nLayer; il++) x = add(branch(il, norm(g, hp, x, `blk.${il}.attn_norm`)), x);
    return decoderOutput(g, hp, x);
  },
});

export const nemotronH = nemotron('nemotron_h');
export const nemotronHMoe = nemotron('nemotron_h_moe');
