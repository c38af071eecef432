/** Qwen 2 and 2.5 (biases on q, k, v) and Qwen 3 (norms of q and k heads): the file's tensors make the difference. */
import { soft_max } from '../graph/row-ops.ts';
import type { Architecture } from './architecture.ts';
import { llamaLike } from './llama.ts';

export const qwen2 = llamaLike('qwen2', 'neox');

const decoder = llamaLike('qwen3', 'neox');
/** As a reranker its labels' scores become probabilities; the first is that of "yes". */
export const qwen3: Architecture = {
  name: 'qwen3',
  build: (hp, g) => (g.wants === 'ranks' ? soft_max(decoder.build(hp, g)) : decoder.build(hp, g)),
};
