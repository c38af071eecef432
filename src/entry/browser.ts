/**
 * Entry for browsers: threads if the page is cross-origin isolated, else one worker, else the
 * page's thread in slices.
 */
import { loadModelOn } from '../load/load-model.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { ModelSource } from '../io/model-files.ts';
import { createWebPlatform } from '../web/platform.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source a URL (relative to the page), `hf:OWNER/REPO[:QUANT]`, a File or Blob, an
 * ArrayBuffer, or { byteLength, slice(start, end) }. For a split model, the first file's URL or the
 * list of all parts.
 * @throws QuantletError with a code if the file cannot be fetched, read or run; or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  return loadModelOn(createWebPlatform, source, options);
}
