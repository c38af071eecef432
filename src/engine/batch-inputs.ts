/** What a step reads of its batch, written to where the plan has it. */
import type { GraphInputs } from '../arch/architecture.ts';
import { RUN_WORDS } from '../graph/recurrent.ts';
import { inStep, type Tensor } from '../graph/tensor.ts';
import type { Executor } from '../threads/executor.ts';
import type { Batch } from './scheduler.ts';

/** @param inputs each in every memory where it is read */
export async function writeInputs(
  executor: Executor,
  inputs: { readonly [K in keyof GraphInputs]: readonly Tensor[] },
  batch: Batch,
): Promise<void> {
  const { nTokens, nOutputs } = batch;
  for (const name of ['ids', 'pos', 'cells', 'first', 'visible', 'encoded', 'outputs', 'others'] as const) {
    const values = batch[name];
    const n = inStep(name === 'outputs' || name === 'others' ? name : 'tokens', nTokens, nOutputs);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, 4 * n);
    for (const { data } of inputs[name]) await executor.write(data, bytes);
  }
  const runs = new Uint8Array(batch.runs.buffer, batch.runs.byteOffset, 4 * RUN_WORDS * batch.nRuns);
  for (const { data } of inputs.runs) await executor.write(data, runs);
}

/** A batch of zeros, at the beginning of a slot. */
export function dummyBatch(n: number): Batch {
  const count = Int32Array.from({ length: n }, (_, i) => i);
  return {
    ids: new Int32Array(n),
    pos: count,
    cells: count,
    first: new Int32Array(n),
    visible: count.map((i) => i + 1),
    encoded: new Int32Array(n).fill(1),
    encodes: false,
    outputs: new Int32Array([n - 1]),
    others: count,
    runs: Int32Array.of(n, -1, 0),
    nTokens: n,
    nOutputs: 1,
    nRuns: 1,
  };
}
