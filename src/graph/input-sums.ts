/** What importance weights are made of: while a model runs, the squares of what its matrices multiply are added up (llama-imatrix's in_sum2). */
import { TYPE } from '../type-traits.ts';
import { mustBeRows } from './operands.ts';
import { leaf, must, node, type Tensor } from './tensor.ts';

/** sums f32 [ne0] += the squares of x [ne0, ...], column by column, row after row. */
export function in_sum2(x: Tensor, sums: Tensor): Tensor {
  mustBeRows('in_sum2', x);
  must(sums.ne[0] === x.ne[0], 'in_sum2', 'there must be a sum for each column', x, sums);
  return node('in_sum2', sums.ne, { src: [x, sums], viewOf: sums });
}

/**
 * The nodes of a graph, with the sums of every matrix that is `measured` taken before the first product that reads their input. Matrices that
 * multiply one tensor (q, k and v, say) share their sums: f32 [ne0], by the names of the matrices.
 */
export function withInputSums(
  nodes: readonly Tensor[],
  measured: (matrix: string) => boolean,
): { readonly nodes: readonly Tensor[]; readonly sums: ReadonlyMap<string, Tensor> } {
  const sums = new Map<string, Tensor>();
  const ofInput = new Map<Tensor, Tensor>();
  const all = nodes.flatMap((t) => {
    const [matrix, x] = t.src as readonly Tensor[];
    if (t.op !== 'mul_mat' || matrix.op !== 'leaf' || !measured(matrix.name)) return [t];
    const known = ofInput.get(x);
    const into = known ?? leaf(`${matrix.name}.in_sum2`, TYPE.f32, [x.ne[0], 1, 1, 1]);
    ofInput.set(x, into);
    sums.set(matrix.name, into);
    return known ? [t] : [in_sum2(x, into), t];
  });
  return { nodes: all, sums };
}
