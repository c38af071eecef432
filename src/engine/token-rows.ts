/** Rows of tables that stay in their files: those that a step's tokens name are read for it. A row has a few kilobytes, a table up to gigabytes. */
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { TokenRows } from './model-plan.ts';

/** Reads the rows of these tokens to their places, each once. No step runs. @throws what reading throws, or signal.reason */
export async function readTokenRows(
  executor: Executor,
  parts: readonly Bytes[],
  { info, tensors }: TokenRows,
  ids: Int32Array,
  signal?: AbortSignal,
): Promise<void> {
  const [, length] = tensors[0].nb;
  const file = parts[info.part];
  // In the order of the file: over a net it is one stream then.
  const rows = new Map(
    [...new Set(ids)]
      .sort((a, b) => a - b)
      .map((id) => [id, file.read(info.offset + id * length, info.offset + (id + 1) * length, signal)]),
  );
  await Promise.all(rows.values());
  const bytes = new Uint8Array(length * ids.length);
  for (const [i, id] of ids.entries()) bytes.set(await rows.get(id)!, i * length);
  for (const { data } of tensors) await executor.write(data, bytes);
}
