/**
 * Encoders for embeddings: BERT (also XLM-RoBERTa, which is converted to it), nomic-bert (dense and
 * mixture of experts), jina-bert-v2 and -v3. Norms follow the residual addition.
 */
import { getCount } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import { get_rows } from '../graph/ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { embed, gatedFeedForward, norm, plainFeedForward, rankHead, selfAttention } from './blocks.ts';
import { experts } from './experts.ts';
import type { HParams } from './hparams.ts';

/**
 * Sum of token embeddings, the embedding of token type 0 and learnt positions (the last two if the
 * file has them), normed.
 */
function embeddings(g: GraphContext, hp: HParams): Tensor {
  let x = embed(g, hp);
  const types = g.shapeOf('token_types.weight');
  if (types) x = add(x, view(g.weight('token_types.weight', types), [hp.nEmbd, 1, 1, 1]));
  if (g.has('position_embd.weight')) x = add(x, get_rows(g.weight('position_embd.weight', [hp.nEmbd, hp.nCtxTrain]), g.inputs.pos));
  return norm(g, hp, x, 'token_embd_norm');
}

interface Variant {
  /** Position encoding in addition to learnt positions: rope, or ALiBi with this max_bias. */
  readonly turns?: boolean;
  readonly maxBias?: number;
  /** Activation of the feed-forward's gate; undefined: there is no gate. */
  readonly gate?: 'silu' | 'gelu';
  /** Layers 1, 1 + n, 1 + 2n ... have experts, with n from `moe_every_n_layers`. */
  readonly mixture?: boolean;
}

const encoder = (name: string, { turns = false, maxBias = 0, gate, mixture = false }: Variant): Architecture => ({
  name,
  build(hp, g) {
    const every = mixture ? getCount(g.gguf, `${name}.moe_every_n_layers`, 0) : 0;
    const angles = turns ? g.ropeTable(hp.rope) : undefined;
    let x = embeddings(g, hp);
    for (let il = 0; il < hp.nLayer; il++) {
      let a = norm(g, hp, add(selfAttention(g, hp, il, x, { angles, maxBias }), x), `blk.${il}.attn_output_norm`);
      if (g.has(`blk.${il}.attn_norm_2.weight`)) a = norm(g, hp, add(a, x), `blk.${il}.attn_norm_2`);
      const f =
        every > 0 && il % every === 1
          ? experts(g, hp, il, a, { act: 'gelu', nFf: hp.nFf })
          : gate
            ? gatedFeedForward(g, hp, il, a, { act: gate })
            : plainFeedForward(g, hp, il, a);
      x = norm(g, hp, add(f, a), `blk.${il}.layer_output_norm`);
    }
    return rankHead(g, hp, get_rows(x, g.inputs.outputs));
  },
});

export const bert = encoder('bert', {});
export const nomicBert = encoder('nomic-bert', { turns: true, gate: 'silu' });
export const nomicBertMoe = encoder('nomic-bert-moe', { turns: true, mixture: true });
export const jinaBertV2 = encoder('jina-bert-v2', { maxBias: 8, gate: 'gelu' });
export const jinaBertV3 = encoder('jina-bert-v3', { turns: true });
