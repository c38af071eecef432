/** Rows of neurons that stay in the file (neurons.ts), read as they fire. Loaded by models that have such rows alone. */
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { NeuronRows } from './neurons.ts';

/** What has been read so far: bytes, in steps of so many tokens; and what all of these rows take. */
export interface NeuronReads {
  readonly bytes: number;
  readonly tokens: number;
  readonly all: number;
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
