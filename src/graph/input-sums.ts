/**
 * Inputs of a model's weights, recorded while it runs: sums of squares of what its matrices
 * multiply (in_sum2 of llama-imatrix), from which importance weights are made; or a step's inputs
 * themselves.
 */
import { TYPE } from '../type-traits.ts';
import { cpy } from './ops.ts';
import { mustBeRows } from './operands.ts';
import { leaf, must, node, type Tensor } from './tensor.ts';

/** Tensors that hold the sums of one matrix, or of a stack of experts. */
export interface InputSumTensors {
  /** f32 [ne0, n_expert]. */
  readonly sums: Tensor;
  /** Experts only: f32 [n_expert], number of columns that each has got. */
  readonly counts: Tensor | undefined;
}

/** Expert of each column, i32 [n_used, n_tokens], and the tensor that counts columns. */
interface ByExpert {
  readonly ids: Tensor;
  readonly counts: Tensor;
}

/**
 * sums f32 [ne0] += squares of x [ne0, ...], row after row. For experts: x [ne0, 1 or n_used,
 * n_tokens]; row (u, t) is added to row ids[u, t] of sums f32 [ne0, n_expert], and adds 1 to its
 * count.
 */
export function in_sum2(x: Tensor, sums: Tensor, by?: ByExpert): Tensor {
  mustBeRows('in_sum2', x);
  must(
    sums.ne[0] === x.ne[0] && (!by || (by.counts.ne[0] === sums.ne[1] && by.ids.ne[1] === x.ne[2])),
    'in_sum2',
    'expected a sum for each column; with ids, a count for each expert and ids for each token',
    x,
    sums,
  );
  return node('in_sum2', sums.ne, { src: [x, by?.ids, by?.counts, sums], viewOf: sums });
}

/**
 * Adds nodes that sum the inputs of every matrix that is `measured`, before the first product that
 * reads them. Matrices that multiply the same tensor (such as q, k and v) share their sums. Returns
 * the sums by the names of matrices.
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

/**
 * Adds nodes that copy the input of every product and norm whose weight is `kept`: f32 [ne0, the
 * batch]. A step leaves the inputs of its tokens there.
 */
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
