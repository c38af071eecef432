/**
 * What a model's weights are given while it runs: the squares of what its matrices multiply, added up (llama-imatrix's in_sum2), of which importance weights
 * are made; or a step's inputs themselves.
 */
import { TYPE } from '../type-traits.ts';
import { cpy } from './ops.ts';
import { mustBeRows } from './operands.ts';
import { leaf, must, node, type Tensor } from './tensor.ts';

/** Where the sums of a matrix are added up, or of each matrix of a stack of experts. */
export interface InputSumTensors {
  /** f32 [ne0, n_expert]. */
  readonly sums: Tensor;
  /** Of experts: f32 [n_expert], how many columns each was given. */
  readonly counts: Tensor | undefined;
}

/** Which expert each column goes to, i32 [n_used, n_tokens], and where they are counted. */
interface ByExpert {
  readonly ids: Tensor;
  readonly counts: Tensor;
}

/**
 * sums f32 [ne0] += the squares of x [ne0, ...], column by column, row after row. Of experts: x [ne0, 1 or n_used, n_tokens], and row (u, t) goes to
 * ids[u, t] of sums f32 [ne0, n_expert], where it counts as one.
 */
export function in_sum2(x: Tensor, sums: Tensor, by?: ByExpert): Tensor {
  mustBeRows('in_sum2', x);
  must(
    sums.ne[0] === x.ne[0] && (!by || (by.counts.ne[0] === sums.ne[1] && by.ids.ne[1] === x.ne[2])),
    'in_sum2',
    'there must be a sum for each column',
    x,
    sums,
  );
  return node('in_sum2', sums.ne, { src: [x, by?.ids, by?.counts, sums], viewOf: sums });
}

/**
 * The nodes of a graph, with the sums of every matrix that is `measured` taken before the first product that reads their input. Matrices that
 * multiply one tensor (q, k and v, say) share their sums, by the names of the matrices.
 */
export function withInputSums(
  nodes: readonly Tensor[],
  measured: (matrix: string) => boolean,
): { readonly nodes: readonly Tensor[]; readonly sums: ReadonlyMap<string, InputSumTensors> } {
  const sums = new Map<string, InputSumTensors>();
  const known: { readonly x: Tensor; readonly ids: Tensor | undefined; readonly into: InputSumTensors }[] = [];
  const all = nodes.flatMap((t) => {
    const [matrix, x, ids] = t.src as readonly [Tensor, Tensor, Tensor | undefined];
    if ((t.op !== 'mul_mat' && t.op !== 'mul_mat_id') || matrix.op !== 'leaf' || !measured(matrix.name)) return [t];
    const found = known.find((k) => k.x === x && k.ids === ids);
    const name = `${matrix.name}.in_sum2`;
    const n = matrix.ne[2];
    const into = found?.into ?? {
      sums: leaf(name, TYPE.f32, [x.ne[0], n, 1, 1]),
      counts: ids && leaf(`${matrix.name}.counts`, TYPE.f32, [n, 1, 1, 1]),
    };
    sums.set(matrix.name, into);
    if (found) return [t];
    known.push({ x, ids, into });
    return [in_sum2(x, into.sums, ids && { ids, counts: into.counts! }), t];
  });
  return { nodes: all, sums };
}

/** The nodes of a graph, with copies of what every product and norm reads beside a weight that is `kept`: f32 [ne0, the batch]. A step leaves its tokens' there. */
export function withKeptInputs(
  nodes: readonly Tensor[],
  kept: (weight: string) => boolean,
): { readonly nodes: readonly Tensor[]; readonly inputs: ReadonlyMap<string, Tensor> } {
  const inputs = new Map<string, Tensor>();
  const all = nodes.flatMap((t) => {
    const [a, b] = t.src;
    const [weight, x] = t.op === 'mul_mat' ? [a, b] : t.op === 'norm' || t.op === 'rms_norm' ? [b, a] : [];
    if (!x || weight?.op !== 'leaf' || !kept(weight.name)) return [t];
    const copy = leaf(`${weight.name}.input`, TYPE.f32, x.ne, x.batch);
    inputs.set(weight.name, copy);
    return [cpy(x, copy), t];
  });
  return { nodes: all, inputs };
}
