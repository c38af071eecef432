/// <reference lib="esnext.disposable" />
/** quantlet for any runtime: one thread, and nothing is loaded but what the caller brings: loadModel(source, { wasm }). */
import type { ModelSource } from '../model-files.ts';
import { loadModelOn, type LoadOptions, type Model } from '../model.ts';
import { createEdgePlatform } from '../web/edge.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source an absolute URL, an ArrayBuffer, a Blob, or { byteLength, slice(start, end) } over a binding or an asset
 * @throws QuantletError with a code for a file that cannot be got, read or run, or signal.reason
 */
export async function loadModel(source: ModelSource | readonly ModelSource[], options: LoadOptions = {}): Promise<Model> {
  // Warming up is for machines that stay, and waits for a clock that may stand still here.
  return loadModelOn(await createEdgePlatform(undefined, options), source, { ...options, warmUp: false });
}
