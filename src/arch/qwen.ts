/**
 * Qwen 2 and 2.5 (biases on q, k, v), Qwen 3 (norms of q and k heads: the file's tensors make the difference), both as the language half of vision models,
 * and both with experts, Qwen 2 with one that all tokens share.
 */
import { getCount } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import { soft_max } from '../graph/row-ops.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { experts, sharedExpert } from './experts.ts';
import type { HParams } from './hparams.ts';
import { angles, decoder, llamaLike, multimodalAngles } from './llama.ts';

export const qwen2 = llamaLike('qwen2', 'neox');

/** As a reranker Qwen 3 makes its labels' scores probabilities; the first is that of "yes". */
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

/** Files from before there was a key for it have all experts of a token in feed_forward_length. */
const widthOf = (hp: HParams, g: GraphContext, il: number): number =>
  g.gguf.metadata.has(`${hp.arch}.expert_feed_forward_length`) ? hp.nFfExpert : Math.floor(hp.nFf / hp.nExpertUsed[il]);

export const qwen2moe = decoder('qwen2moe', (hp, g) => {
  const table = angles(hp, g);
  const nFfShared = getCount(g.gguf, 'qwen2moe.expert_shared_feed_forward_length', hp.nFf) || hp.nFf;
  return {
    layer: (il) => ({
      angles: table,
      feedForward: (h) => add(experts(g, hp, il, h, { nFf: widthOf(hp, g, il) }), sharedExpert(g, hp, il, h, nFfShared)),
    }),
  };
});

export const qwen3moe = decoder('qwen3moe', (hp, g) => {
  const table = angles(hp, g);
  return {
    layer: (il) => ({ angles: table, feedForward: (h) => experts(g, hp, il, h, { normalised: true, nFf: widthOf(hp, g, il) }) }),
  };
});
