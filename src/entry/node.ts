/** quantlet for Node, Deno and Bun. */
import { loadModelOn, type LoadOptions, type Model } from '../model.ts';
import type { ModelSource } from '../model-files.ts';
import { enableFor, enableTurbo, platform } from './node-platform.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source a path, a file: URL, a Blob, an ArrayBuffer, or { byteLength, slice(start, end) }; of a split model the first file's path, or the list of all parts
 * @throws QuantletError with a code for a file that cannot be read or run, or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  enableFor(options?.build);
  if (options?.turbo) enableTurbo();
  return loadModelOn(platform, source, options);
}
