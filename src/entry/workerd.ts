/**
 * Entry for Cloudflare Workers (workerd), which compile WebAssembly only at deployment: one thread.
 */
import type { ModelSource } from '../io/model-files.ts';
import type { LoadOptions, Model } from '../model.ts';
import kernels from '../../dist/wasm/relaxed.wasm';
import { loadModelOnEdge } from '../web/edge.ts';

export * from './common.ts';

/**
 * Loads a GGUF model.
 * @param source an absolute URL, `hf:OWNER/REPO[:QUANT]`, an ArrayBuffer, a Blob, or { byteLength,
 * slice(start, end) } over a binding or an asset
 * @throws QuantletError with a code if the file cannot be fetched, read or run; or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  return loadModelOnEdge(kernels, source, options);
}
