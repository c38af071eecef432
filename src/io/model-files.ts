/**
 * Opens a model's files and checks their headers: one file, a split model by its first file, or a
 * list of parts.
 */
import { QuantletError, tell } from '../errors.ts';
import { openSplitGGUF, readSplitGGUF, type OpenedGGUF } from '../gguf/split.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { OpenedFile, Platform } from '../platform.ts';
import { printable } from '../printable.ts';
import type { Bytes, SourceLike } from './source.ts';
import { outOfMemory } from '../wasm/memory.ts';

export type ModelSource = string | URL | SourceLike;

export interface ModelFiles extends OpenedGGUF {
  /** @see OpenedFile.projector */
  readonly projector: string | URL | undefined;
  close(): Promise<void>;
}

/**
 * @param onOpen called when the first file is open and its header is not yet read
 * @throws QuantletError for files that cannot be opened or read, or signal.reason; files already
 * opened are closed
 */
export async function openModelFiles(
  platform: Platform,
  source: ModelSource | readonly ModelSource[],
  signal?: AbortSignal,
  onOpen?: (file: OpenedFile) => void,
): Promise<ModelFiles> {
  const opened: OpenedFile[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((f) => f.close()));
  };
  const open = async (one: ModelSource) => {
    checkSource(one);
    const file = await platform.open(one, signal);
    if (opened.push(file) === 1) onOpen?.(file);
    return file;
  };
  const options = signal ? { signal } : {};
  try {
    if (Array.isArray(source)) {
      if (source.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'the list of model files is empty; expected at least one');
      const parts = [];
      for (const one of source as readonly ModelSource[]) parts.push((await open(one)).bytes);
      return { gguf: await readSplitGGUF(parts, options), parts, projector: undefined, close };
    }
    const first = await open(source as ModelSource);
    const files = await openSplitGGUF(
      first.bytes,
      first.name ?? '',
      async (name) => (await open(first.sibling?.(name) ?? name)).bytes,
      options,
    );
    return { ...files, projector: first.projector, close };
  } catch (error) {
    await close();
    throw outOfMemory('opening the model', withName(error, opened[0]?.name));
  }
}

/** @throws ERR_INVALID_ARGUMENT for a value that cannot be a source */
function checkSource(source: unknown): void {
  if ((typeof source === 'string' && source !== '') || (typeof source === 'object' && source !== null)) return;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `the model is ${tell(source)}; expected a path or URL of a .gguf file, hf:OWNER/REPO, its bytes (a Blob, an ArrayBuffer, a typed array or { byteLength, slice(start, end) }), or a list of its parts`,
  );
}

/**
 * Bytes of a tensor, from a model's files.
 * @throws as reading does, or signal.reason
 */
export const tensorBytes = (parts: readonly Bytes[], { part, offset, byteLength }: TensorInfo, signal?: AbortSignal): Promise<Uint8Array> =>
  parts[part].read(offset, offset + byteLength, signal);

/**
 * Elements of an f32 tensor.
 * @throws as tensorBytes
 */
export const tensorFloats = async (parts: readonly Bytes[], info: TensorInfo, signal?: AbortSignal): Promise<Float32Array> =>
  new Float32Array((await tensorBytes(parts, info, signal)).slice().buffer);

/** Adds the file's name to an error about its header, if the file has a name. */
function withName(error: unknown, name: string | undefined): unknown {
  if (!(error instanceof QuantletError) || !error.code.startsWith('ERR_GGUF_') || !name || error.message.includes(printable(name)))
    return error;
  return new QuantletError(error.code, `${name}: ${error.message}`, { cause: error });
}
