/**
 * Rows of neurons that stay in the file, after "LLM in a flash" (arXiv 2312.11514). A step reads
 * the rows that fire for its tokens. The host keeps the rows of the last tokens, because most of
 * them fire again. The idx that selects rows is computed in the middle of a layer, so a pass ends
 * there. The next pass finds the rows in its window, which has an address for every row of a layer.
 */
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { baseOf, isContiguous, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';
import type { Bytes } from '../io/source.ts';

/** Weights whose rows are selected, token by token, by one idx. */
export interface Neurons {
  /** f32 [n, n_tokens]. */
  readonly idx: Tensor;
  /** True for the values of idx that select a row. */
  readonly counts: (v: number) => boolean;
  readonly weights: readonly Tensor[];
}

/** Neurons of a pass: their idx and the windows of their weights lie in the pass's memory. */
export interface NeuronRows extends Omit<Neurons, 'weights'> {
  readonly weights: readonly (readonly [TensorInfo, Tensor])[];
}

/** True if row i of a view is part of row i of its base. */
const keepsRows = (t: Tensor, of: Tensor): boolean => t === of || (t.nb[1] === of.nb[1] && t.ne[1] === of.ne[1]);

/**
 * Finds the weights that can stay in the file: plain, and read only by products of the rows that
 * one idx selects.
 * @param nodes of a graph, each after its sources
 */
export function neuronsOf(nodes: readonly Tensor[], weights: ReadonlySet<Tensor>): Neurons[] {
  const groups = new Map<string, Neurons & { readonly weights: Tensor[] }>();
  const of = new Map<Tensor, string | undefined>();
  const numbers = new Map<Tensor, number>(nodes.map((t, i) => [t, i]));
  for (const t of nodes) {
    if (t.op === 'view') continue;
    for (const [i, s] of t.src.entries()) {
      const w = s && baseOf(s);
      if (!w || !weights.has(w)) continue;
      const [, , idx, lookup, dense] = t.src;
      const { nonzero, per, threshold } = t.params;
      // If idx is x itself, all rows are computed (hot neurons, arch/sparse.ts).
      const byRows =
        (t.op === 'mul_mat_sparse' || t.op === 'axpy') && i === 0 && t.src[1] !== idx && per === 1 && !lookup && !dense && keepsRows(s, w);
      const known = byRows && w.layout === 'plain' && w.ne[2] === 1 && idx!.op !== 'leaf' && !idx!.viewOf && isContiguous(idx!);
      const key = known && idx!.type === TYPE.f32 ? `${numbers.get(idx!)} ${nonzero} ${threshold}` : undefined;
      if (key !== undefined && !of.has(w)) {
        const least = Math.fround(threshold);
        const counts = nonzero ? (v: number): boolean => v !== 0 && !(v < least) : (v: number): boolean => v >= least;
        const group = groups.get(key) ?? { idx: idx!, counts, weights: [] };
        groups.set(key, group);
        group.weights.push(w);
      }
      of.set(w, !of.has(w) || of.get(w) === key ? key : undefined);
    }
  }
  return [...groups].flatMap(([key, { weights: all, ...group }]) => {
    const own = all.filter((w) => of.get(w) === key);
    return own.length > 0 ? { ...group, weights: own } : [];
  });
}

/** @throws ERR_SOURCE if a model is not in files: over a network, each row would be a request */
export function mustBeInFiles(parts: readonly Bytes[]): void {
  if (!parts.every(({ file }) => file))
    throw new QuantletError(
      'ERR_SOURCE',
      'neuronWindow reads rows from the file for every token, and this model is not a file of this machine; give a path, or no neuronWindow',
    );
}
