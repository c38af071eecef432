/**
 * Memories of a planned model, the threads over them, and everything that lies in them besides
 * weights.
 */
import { ropeTable } from '../arch/rope-table.ts';
import { tensorFloats } from '../io/model-files.ts';
import type { Bytes } from '../io/source.ts';
import type { CpuBackend } from '../threads/cpu-backend.ts';
import type { PlacedModel } from '../run/model-engine.ts';
import { READERS, type PlannedModel } from '../plan/plan-to-fit.ts';
import type { RopeTable } from '../plan/sequence-leaves.ts';

/**
 * Creates the planned memories, and starts the threads over them.
 * @throws ERR_OUT_OF_MEMORY; what compiling the kernels throws
 */
export async function placeModel(backend: CpuBackend, planned: PlannedModel): Promise<PlacedModel> {
  const { encoder, passes, memories } = planned.plan;
  const streams = [...encoder, ...passes].some((pass) => pass.streams);
  const executor = await backend.start(memories, streams ? READERS : 0);
  const { turbo } = await backend.compiled();
  return { ...planned, executor, build: backend.build, threads: backend.threads, turbo };
}

/** Writes the plans, their constants and the tables of rope angles. */
export async function writePlans({ plan, executor }: PlacedModel, parts: readonly Bytes[]): Promise<void> {
  for (const { plan: graph, placed } of [...plan.encoder, ...plan.passes]) {
    await executor.write(placed.at, placed.encode());
    for (const { data, values } of graph.constants) await executor.write(data, values!());
  }
  for (const table of plan.tables) {
    const bytes = new Uint8Array((await angles(table, parts)).buffer);
    for (const { data } of table.tensors) await executor.write(data, bytes);
  }
}

/** Angles of a rope table, with the file's frequency factors if it has any. */
async function angles({ params, factors, tensors: [tensor] }: RopeTable, parts: readonly Bytes[]): Promise<Float32Array> {
  if (!factors) return ropeTable(params, tensor.ne[1]);
  return ropeTable({ ...params, factors: await tensorFloats(parts, factors) }, tensor.ne[1]);
}
