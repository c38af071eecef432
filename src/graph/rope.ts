/** Rotary embedding with a table of angles, for models and rope_ext (core/rope.ts). */
import { oneOf } from '../options.ts';
import { TYPE } from '../type-traits.ts';
import { mustBe, mustBeRows } from './operands.ts';
import { isContiguous, must, nelements, node, type Tensor } from './tensor.ts';

export type RopeMode = 'normal' | 'neox';
export const ROPE_MODE = oneOf('normal', 'neox');

/**
 * ggml_rope_ext with its angles in `table` f32 [n_dims, n_ctx] (arch/rope-table.ts). a [head_dim,
 * n_head, n_tokens, ne3] f32, f16 or bf16, pos i32 [n_tokens] -> a's shape and type.
 */
export function rope<T extends string>(
  a: Tensor<T>,
  pos: Tensor,
  table: Tensor,
  { mode = 'normal' }: { readonly mode?: RopeMode | undefined } = {},
): Tensor<T> {
  mustBeRows('rope', a);
  must(table.ne[0] <= a.ne[0] && table.ne[0] % 2 === 0, 'rope', 'expected a table for an even number of dimensions, at most ne0', a, table);
  must(pos.ne[0] === a.ne[2] && nelements(pos) === pos.ne[0], 'rope', 'expected ne2 positions', a, pos);
  mustBe(
    'rope',
    pos.type === TYPE.i32 && table.type === TYPE.f32 && isContiguous(table),
    'i32 positions and a contiguous f32 table',
    a,
    pos,
    table,
  );
  return node('rope', a.ne, {
    type: a.type,
    src: [a, pos, table],
    params: { n_dims: table.ne[0], neox: mode === 'neox' ? 1 : 0 },
    batch: a.batch,
  });
}
