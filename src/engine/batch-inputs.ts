/** Inputs of a step: copies a batch to where the plan reads it. */
import type { GraphInputs } from '../arch/architecture.ts';
import { RUN_WORDS } from '../graph/recurrent.ts';
import { inStep, type Tensor } from '../graph/tensor.ts';
import type { Executor } from '../threads/executor.ts';
import { Batch } from './batch.ts';

/** @param inputs the plan's tensors, one for every memory that reads them */
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
  const batch = new Batch(n, 1);
  for (let i = 0; i < n; i++) batch.push({ firstCell: 0, encoded: [0] }, 0, i, i + 1, i === n - 1);
  batch.pushRuns([{ n, from: -1, to: 0 }]);
  return batch;
}
