/** Inputs of a step: copies a batch to where the plan reads it. */
import { RUN_WORDS } from '../graph/layout.ts';
import { inStep } from '../graph/tensor.ts';
import type { ModelPlan } from '../plan/model-plan.ts';
import type { Executor } from '../threads/executor.ts';
import { Batch } from './batch.ts';

/** @param inputs the plan's tensors, one for every memory that reads them */
export async function writeInputs(executor: Executor, inputs: ModelPlan['inputs'], batch: Batch): Promise<void> {
  const { nTokens, nOutputs } = batch;
  for (const name of ['ids', 'pos', 'cells', 'first', 'visible', 'encoded', 'outputs', 'others'] as const) {
    const values = batch[name];
    const n = inStep(name === 'outputs' || name === 'others' ? name : 'tokens', nTokens, nOutputs);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, 4 * n);
    for (const { data } of inputs[name]) await executor.write(data, bytes);
  }
  if (inputs.rows) await writeImages(executor, inputs, batch);
  const runs = new Uint8Array(batch.runs.buffer, batch.runs.byteOffset, 4 * RUN_WORDS * batch.nRuns);
  for (const { data } of inputs.runs) await executor.write(data, runs);
}

async function writeImages(executor: Executor, inputs: ModelPlan['inputs'], batch: Batch): Promise<void> {
  for (const name of ['isText', 'height', 'width', 'extra', 'order', 'far', 'causal'] as const) {
    const values = batch[name];
    for (const { data } of inputs[name] ?? [])
      await executor.write(data, new Uint8Array(values.buffer, values.byteOffset, 4 * batch.nTokens));
  }
  // Rows that the last step had images in are zeros again, or have other images.
  const bytes = new Uint8Array(
    batch.rows.buffer,
    0,
    (batch.rows.byteLength / batch.ids.length) * Math.max(batch.usedRows, batch.writtenRows),
  );
  for (const { data } of inputs.rows ?? []) await executor.write(data, bytes);
  batch.writtenRows = batch.usedRows;
}

/** A batch of zeros, at the beginning of a slot. */
export function dummyBatch(n: number): Batch {
  const batch = new Batch(n, 1);
  for (let i = 0; i < n; i++) batch.push({ firstCell: 0, encoded: [0] }, 0, i, i + 1, i === n - 1);
  batch.pushRuns([{ n, from: -1, to: 0 }]);
  return batch;
}
