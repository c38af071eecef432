/**
 * Tables that stay in their files: a step reads only the rows of its tokens. A row has a few
 * kilobytes, a table up to gigabytes.
 */
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import type { TokenRows } from '../plan/model-plan.ts';

/**
 * Reads the rows of these tokens, each once, and writes them in the order of the tokens. Call
 * between steps.
 * @throws what reading throws, or signal.reason
 */
export async function readTokenRows(
  executor: Executor,
  parts: readonly Bytes[],
  { info, tensors }: TokenRows,
  ids: Int32Array,
  signal?: AbortSignal,
): Promise<void> {
  const [, length] = tensors[0].nb;
  const file = parts[info.part];
  // In the order of the file, so that over a network they are one stream.
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
