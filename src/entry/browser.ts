/** quantlet for browsers: threads where the page is cross-origin isolated, else one worker, else this thread in slices. */
import { loadModelOn } from '../load-model.ts';
import type { LoadOptions, Model } from '../model.ts';
import type { ModelSource } from '../io/model-files.ts';
import { createWebPlatform } from '../web/platform.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source a URL (a string is taken relative to the page), `hf:OWNER/REPO[:QUANT]`, a File or Blob, an ArrayBuffer, or { byteLength, slice(start, end) }; of a split model the first file's URL, or the list of all parts
 * @throws QuantletError with a code for a file that cannot be got, read or run, or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  return loadModelOn(createWebPlatform, source, options);
}
