/**
 * Qwen 2 and 2.5 (biases on q, k, v) and Qwen 3 (norms of q and k heads), which differ by the
 * tensors in the file. Both also as the language part of vision models, and with experts; Qwen 2
 * has a shared expert.
 */
import { getCount } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import { soft_max } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { experts, sharedExpert, type ExpertOptions } from './experts.ts';
import type { HParams } from './hparams.ts';
import { angles, decoder, llamaLike, multimodalAngles } from './llama.ts';

export const qwen2 = llamaLike('qwen2', 'neox');

/** As a reranker, Qwen 3 gives probabilities of its labels. The first label is "yes". */
const reranker = ({ name, build }: Architecture): Architecture => ({
  name,
  build: (hp, g) => (g.wants === 'ranks' ? soft_max(build(hp, g)) : build(hp, g)),
});

export const qwen3 = reranker(llamaLike('qwen3', 'neox'));

const vision = (name: string, interleaved: boolean): Architecture =>
  decoder(name, (hp, g) => {
    const table = multimodalAngles(hp, g, interleaved) ?? angles(hp, g);
    return { layer: () => ({ angles: table }) };
  });

export const qwen2vl = vision('qwen2vl', false);
export const qwen3vl = reranker(vision('qwen3vl', true));

/**
 * Feed-forward of a layer with experts: the routed ones, plus the shared expert if the file has it.
 */
export function qwenExperts(hp: HParams, g: GraphContext, options: ExpertOptions): (il: number, h: Tensor) => Tensor {
  const key = (k: string): string => `${hp.arch}.${k}`;
  const nFfShared = getCount(g.gguf, key('expert_shared_feed_forward_length'), hp.nFf) || hp.nFf;
  // Older files lack the key. Their feed_forward_length is the sum over all experts of a token.
  const width = (il: number): number =>
    g.gguf.metadata.has(key('expert_feed_forward_length')) ? hp.nFfExpert : Math.floor(hp.nFf / hp.nExpertUsed[il]);
  return (il, h) => {
    const routed = experts(g, hp, il, h, { ...options, nFf: width(il) });
    return g.has(`blk.${il}.ffn_up_shexp.weight`) ? add(routed, sharedExpert(g, hp, il, h, nFfShared)) : routed;
  };
}

const mixture = (name: string, options: ExpertOptions): Architecture =>
  decoder(name, (hp, g) => {
    const table = angles(hp, g);
    const feedForward = qwenExperts(hp, g, options);
    return { layer: (il) => ({ angles: table, feedForward: (h) => feedForward(il, h) }) };
  });

export const qwen2moe = mixture('qwen2moe', {});
export const qwen3moe = mixture('qwen3moe', { normalised: true });
