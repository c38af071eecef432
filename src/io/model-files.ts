/** A model's files opened and their header checked: one file, a split model told by its first file, or a list of parts. */
import { QuantletError, tell } from '../errors.ts';
import { openSplitGGUF, readSplitGGUF, type OpenedGGUF } from '../gguf/split.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { OpenedFile, Platform } from '../engine/platform.ts';
import { printable } from '../printable.ts';
import type { Bytes, SourceLike } from './source.ts';
import { outOfMemory } from '../wasm/memory.ts';

export type ModelSource = string | URL | SourceLike;

export interface ModelFiles extends OpenedGGUF {
  close(): Promise<void>;
}

/**
 * @param onOpen called when there is a first file, and its header is still to be read
 * @throws QuantletError for files that cannot be opened or read, or signal.reason; everything opened is closed again
 */
export async function openModelFiles(
  platform: Platform,
  source: ModelSource | readonly ModelSource[],
  signal?: AbortSignal,
  onOpen?: () => void,
): Promise<ModelFiles> {
  const opened: OpenedFile[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((f) => f.close()));
  };
  const open = async (one: ModelSource) => {
    checkSource(one);
    const file = await platform.open(one, signal);
    if (opened.push(file) === 1) onOpen?.();
    return file;
  };
  const options = signal ? { signal } : {};
  try {
    if (Array.isArray(source)) {
      if (source.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'the list of model files is empty; expected at least one');
      const parts = [];
      for (const one of source as readonly ModelSource[]) parts.push((await open(one)).bytes);
      return { gguf: await readSplitGGUF(parts, options), parts, close };
    }
    const first = await open(source as ModelSource);
    const files = await openSplitGGUF(
      first.bytes,
      first.name ?? '',
      async (name) => (await open(first.sibling?.(name) ?? name)).bytes,
      options,
    );
    return { ...files, close };
  } catch (error) {
    await close();
    throw outOfMemory('opening the model', withName(error, opened[0]?.name));
  }
}

/** @throws ERR_INVALID_ARGUMENT for what cannot be a source */
function checkSource(source: unknown): void {
  if ((typeof source === 'string' && source !== '') || (typeof source === 'object' && source !== null)) return;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `the model is ${tell(source)}; expected a path or URL of a .gguf file, hf:OWNER/REPO, its bytes (a Blob, an ArrayBuffer, a typed array or { byteLength, slice(start, end) }), or a list of its parts`,
  );
}

/** A tensor's bytes, of a model's files. @throws what reading them throws, or signal.reason */
export const tensorBytes = (parts: readonly Bytes[], { part, offset, byteLength }: TensorInfo, signal?: AbortSignal): Promise<Uint8Array> =>
  parts[part].read(offset, offset + byteLength, signal);

/** The elements of a tensor of f32. @throws as tensorBytes */
export const tensorFloats = async (parts: readonly Bytes[], info: TensorInfo, signal?: AbortSignal): Promise<Float32Array> =>
  new Float32Array((await tensorBytes(parts, info, signal)).slice().buffer);

/** What is wrong with a file's header says which file it is, where it has a name. */
function withName(error: unknown, name: string | undefined): unknown {
  if (!(error instanceof QuantletError) || !error.code.startsWith('ERR_GGUF_') || !name || error.message.includes(printable(name)))
    return error;
  return new QuantletError(error.code, `${name}: ${error.message}`, { cause: error });
}
