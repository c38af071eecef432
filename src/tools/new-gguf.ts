/** Writes GGUF files; shared by the tools that make models. */
import type { TensorInfo } from '../gguf/types.ts';
import type { GGUFLayout, WriteValue } from '../gguf/write.ts';
import type { ModelFiles } from '../io/model-files.ts';
import { writeNewFile, type WriteAt } from './new-file.ts';

/** Bytes copied at a time. */
const PIECE = 4 * 1024 * 1024;

/**
 * Writes a file with this layout; `fill` writes the tensors.
 * @throws as writeNewFile
 */
export const writeNewGGUF = (
  output: string,
  { header, tensors, byteLength }: GGUFLayout,
  fill: (write: WriteAt) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> =>
  writeNewFile(
    output,
    async (write) => {
      await write(header, 0);
      // Padding is written too, because a pipe cannot skip bytes.
      let end = header.length;
      for (const { offset, byteLength: size } of [...tensors, { offset: byteLength, byteLength: 0 }]) {
        if (offset > end) await write(new Uint8Array(offset - end), end);
        end = offset + size;
      }
      await fill(write);
    },
    signal,
  );

/** The metadata of the model, byte for byte, without the keys that describe a split. */
export async function metadataOf({ gguf, parts }: ModelFiles, signal: AbortSignal): Promise<Map<string, WriteValue>> {
  const metadata = new Map<string, WriteValue>();
  for (const [key, [start, end]] of gguf.metadataRanges)
    if (!key.startsWith('split.')) metadata.set(key, { raw: await parts[0].read(start, end, signal) });
  return metadata;
}

/** Copies a tensor to the position `to`, in pieces. */
export async function copyTensor(
  write: WriteAt,
  { parts }: ModelFiles,
  { part, offset, byteLength }: TensorInfo,
  to: number,
  signal: AbortSignal,
  onBytes: (n: number) => void,
): Promise<void> {
  for (let at = 0; at < byteLength; at += PIECE) {
    const end = Math.min(at + PIECE, byteLength);
    await write(await parts[part].read(offset + at, offset + end, signal), to + at);
    onBytes(end - at);
  }
}
