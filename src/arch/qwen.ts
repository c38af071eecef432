/** Qwen 2 and 2.5 (biases on q, k, v), Qwen 3 (norms of q and k heads: the file's tensors make the difference), and both as the language half of vision models. */
import { soft_max } from '../graph/row-ops.ts';
import type { Architecture } from './architecture.ts';
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
