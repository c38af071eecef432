/**
 * Rows of neurons that stay in the file, after "LLM in a flash" (arXiv 2312.11514): a step reads those that fire for its tokens, and the host keeps those of
 * the last tokens, most of which fire again. Which ones fire is known in the middle of a layer: there a pass ends, and the next one finds in its window,
 * where all rows of a layer have their places, those that it computes with.
 */
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { isContiguous, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';

/** Weights of which one idx says, token by token, which rows are read. */
export interface Neurons {
  /** f32 [n, n_tokens]. */
  readonly idx: Tensor;
  /** Whether rows count whose element this is. */
  readonly counts: (v: number) => boolean;
  readonly weights: readonly Tensor[];
}

/** The same for a pass, which has idx and a window for the weights in its memory. */
export interface NeuronRows extends Omit<Neurons, 'weights'> {
  readonly weights: readonly (readonly [TensorInfo, Tensor])[];
}

/** What has been read so far: bytes, in steps of so many tokens; and what all of these rows take. */
export interface NeuronReads {
  readonly bytes: number;
  readonly tokens: number;
  readonly all: number;
}

const baseOf = (t: Tensor): Tensor => t.viewOf ?? t;

/** Whether row i of a view is a part of row i of what it is a view of. */
const keepsRows = (t: Tensor, of: Tensor): boolean => t === of || (t.nb[1] === of.nb[1] && t.ne[1] === of.ne[1]);

/**
 * The weights that can stay in the file: plain, and read by nothing but products of the rows that one idx names.
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
      const byRows = (t.op === 'mul_mat_sparse' || t.op === 'axpy') && i === 0 && per === 1 && !lookup && !dense && keepsRows(s, w);
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

export interface NeuronWindow {
  readonly reads: NeuronReads;
  /**
   * Puts the rows that a pass computes with where it finds them. No step runs.
   * @throws what reading throws, or signal.reason
   */
  ready(pass: NeuronRows, nTokens: number, signal?: AbortSignal): Promise<void>;
  /** Resolves when nothing is read any more. */
  close(): Promise<void>;
}

/** As Promise.all, but where one is rejected the others end first. */
async function settled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/** The rows of a pass that are kept: what they are of each weight, and the last token that they fired for, counted from the first. */
interface Kept {
  readonly rows: Map<number, { readonly of: Uint8Array[]; last: number }>;
  tokens: number;
}

/** @throws ERR_SOURCE where a model is in no files: over a net each row would be a request */
export function mustBeInFiles(parts: readonly Bytes[]): void {
  if (!parts.every(({ file }) => file))
    throw new QuantletError(
      'ERR_SOURCE',
      'neuronWindow reads single rows for every token, and this model is not in files of this machine; expected a path, or no neuronWindow',
    );
}

/**
 * @param passes in the order of a step
 * @param window of how many tokens rows are kept
 */
export function createNeuronWindow(
  executor: Executor,
  parts: readonly Bytes[],
  passes: readonly NeuronRows[],
  window: number,
): NeuronWindow {
  const all = passes.flatMap(({ weights }) => weights).reduce((sum, [{ byteLength }]) => sum + byteLength, 0);
  const reads = { bytes: 0, tokens: 0, all };
  const keeps = new Map(passes.map((pass): [NeuronRows, Kept] => [pass, { rows: new Map(), tokens: 0 }]));

  /** Rows [from, to) of all weights: for each row what it is of each. */
  const read = async ({ weights }: NeuronRows, from: number, to: number, signal?: AbortSignal): Promise<Uint8Array[][]> => {
    const pieces = await settled(
      weights.map(([{ part, offset }, { nb }]) => parts[part].read(offset + from * nb[1], offset + to * nb[1], signal)),
    );
    for (const { length } of pieces) reads.bytes += length;
    return Array.from({ length: to - from }, (_, i) => weights.map(([, { nb }], w) => pieces[w].subarray(i * nb[1], (i + 1) * nb[1])));
  };

  const ready = async (pass: NeuronRows, nTokens: number, signal?: AbortSignal): Promise<void> => {
    const { idx, counts, weights } = pass;
    const kept = keeps.get(pass)!;
    const [n] = idx.ne;
    const values = new Float32Array((await executor.read(idx.data, 4 * n * nTokens)).slice().buffer);
    const fired = new Map<number, number>();
    for (const [i, v] of values.entries()) if (counts(v)) fired.set(i % n, kept.tokens + Math.floor(i / n));
    // Neighbours are read at once.
    const missing = [...fired.keys()].filter((row) => !kept.rows.has(row)).sort((a, b) => a - b);
    const starts = missing.filter((row, i) => row !== missing[i - 1] + 1);
    const ends = missing.filter((row, i) => row !== missing[i + 1] - 1);
    const runs = await settled(starts.map((from, i) => read(pass, from, ends[i] + 1, signal)));
    runs.forEach((run, i) => run.forEach((of, j) => kept.rows.set(starts[i] + j, { of, last: 0 })));
    for (const [row, last] of fired) {
      const found = kept.rows.get(row)!;
      found.last = last;
      for (const [w, [, { data, nb }]] of weights.entries()) await executor.write(data + row * nb[1], found.of[w]);
    }
    kept.tokens += nTokens;
    if (pass === passes[0]) reads.tokens += nTokens;
    for (const [row, { last }] of kept.rows) if (last < kept.tokens - window) kept.rows.delete(row);
  };

  let reading: Promise<unknown> = Promise.resolve();
  return {
    reads,
    async ready(...step) {
      const done = ready(...step);
      reading = done.catch(() => {});
      await done;
    },
    close: async () => void (await reading),
  };
}
