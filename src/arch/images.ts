/** Images among the tokens of a decoder: their embeddings, their positions, deepstack. */
import { getCount } from '../gguf/metadata.ts';
import { add, mul } from '../graph/elementwise-ops.ts';
import { get_rows } from '../graph/ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { view } from '../graph/views.ts';
import type { GraphContext, ImageInputs } from './architecture.ts';
import type { HParams } from './hparams.ts';

/** Layers after which a model adds further embeddings of images (Qwen 3 VL). */
export const deepstackLayers = (gguf: GraphContext['gguf'], arch: string): number => getCount(gguf, `${arch}.n_deepstack_layers`, 0, 0, 64);

/** Part i of the embeddings of images, which are zeros for text. */
const part = ({ rows }: ImageInputs, { nEmbd }: HParams, i: number): Tensor =>
  view(rows, [nEmbd, rows.ne[1]], { nb: [rows.nb[1]], offset: 4 * nEmbd * i });

/** Embeddings in which those of images replace those of the tokens in their place. */
export function withImages(g: GraphContext, hp: HParams, x: Tensor): Tensor {
  if (!g.images) return x;
  return add(mul(x, g.images.isText), part(g.images, hp, 0));
}

/** Adds the embeddings of images that belong after layer il. */
export function withDeepstack(g: GraphContext, hp: HParams, il: number, x: Tensor): Tensor {
  return g.images && il < deepstackLayers(g.gguf, hp.arch) ? add(x, part(g.images, hp, il + 1)) : x;
}

/** Angles of a step's tokens, and the row of each token in them. */
export interface TokenAngles {
  readonly table: Tensor;
  readonly rows: Tensor;
}

/**
 * M-RoPE (ggml_rope_multi): angles of each token, f32 [n_dims, n_tokens]. Each section of pairs
 * turns by a position of its own.
 */
export function anglesOfTokens(
  { height, width, extra, order }: ImageInputs,
  pos: Tensor,
  table: Tensor,
  sections: readonly number[],
): TokenAngles {
  const of = (positions: Tensor, i: number): Tensor =>
    mul(
      get_rows(table, positions),
      sections.flatMap((section) => (section === i ? [1, 1] : [0, 0])),
    );
  const [first, ...others] = [pos, height, width, extra].flatMap((positions, i) => (sections.includes(i) ? [of(positions, i)] : []));
  return { table: others.reduce(add, first), rows: order };
}
