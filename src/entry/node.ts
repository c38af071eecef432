/** Entry for Node, Deno and Bun. */
import { loadModelOn } from '../load/load-model.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { ModelSource } from '../io/model-files.ts';
import { platformFor } from './node-platform.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source a path, a URL, `hf:OWNER/REPO[:QUANT]` (a model of the Hugging Face hub; without a
 * quant Q4_K_M, else the first), a Blob, an ArrayBuffer, or { byteLength, slice(start, end) }. For
 * a split model, the first file or the list of all parts. Remote files are downloaded once and
 * cached: see HubOptions.
 * @throws QuantletError with a code if the file cannot be fetched, read or run; or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  return loadModelOn(platformFor, source, options);
}
