/**
 * Reads rows of neurons from the file as they fire (neurons.ts). Imported only for models with such
 * rows.
 */
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { NeuronRows } from '../plan/neurons.ts';

/** Bytes read so far, tokens of the steps that read them, and bytes of all rows. */
export interface NeuronReads {
  readonly bytes: number;
  readonly tokens: number;
  readonly all: number;
}

export interface NeuronWindow {
  readonly reads: NeuronReads;
  /**
   * Writes the rows that a pass needs into its window, from the host's kept rows or from the file.
   * Call between steps, before the pass.
   * @throws what reading throws, or signal.reason
   */
  ready(pass: NeuronRows, nTokens: number, signal?: AbortSignal): Promise<void>;
  /** Resolves when the last read has ended. */
  close(): Promise<void>;
}

/** Promise.all that waits for all promises even if one rejects. */
async function settled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/**
 * Rows of a pass that the host keeps: the bytes of a row in each weight, and the last token that it
 * fired for, counted from the first token.
 */
interface Kept {
  readonly rows: Map<number, { readonly of: Uint8Array[]; last: number }>;
  tokens: number;
}

/**
 * @param passes in the order of a step
 * @param window tokens for which a row is kept after it fired
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

  /** Reads rows [from, to) of all weights. Returns the bytes of each row in each weight. */
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
    // Adjacent rows are read together.
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
