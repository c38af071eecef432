/**
 * quantlet/core: tensors, graphs in ggml's vocabulary, plans, and the kernels that models run on.
 * Also loadModel for any runtime.
 *
 *   const engine = await createEngine({ threads: 2 });
 *   const w = engine.tensor('f32', [64, 8], weights), x = engine.tensor('f32', [64], input);
 *   const y = mul_mat(w, x), plan = engine.plan(y);
 *   await engine.compute(plan);
 *   engine.read(y); // Float32Array of 8
 *
 * On Node, Deno and Bun, createEngine finds its kernels and threads (core-node.ts). Elsewhere there
 * is one thread, and the caller passes the kernels: { wasm }.
 */
import { createEngineOn } from '../core/create.ts';
import type { Engine, EngineOptions } from '../core/engine.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { LoadOptions, Model } from '../model.ts';
import { createEdgePlatform, loadModelOnEdge } from '../web/edge.ts';

export * from '../core/api.ts';
export * from './common.ts';

export interface CreateEngineOptions extends EngineOptions {
  /**
   * The kernels: the package's dist/wasm/simd.wasm or relaxed.wasm, as a module, bytes, Response or
   * URL. Required without a file system.
   */
  wasm?: LoadOptions['wasm'];
}

/**
 * Starts an engine, which has a memory for tensors, and threads that compute.
 * @throws ERR_NO_SIMD, ERR_BUILD_UNAVAILABLE, ERR_INVALID_ARGUMENT, ERR_OUT_OF_MEMORY
 */
export async function createEngine(options: CreateEngineOptions = {}): Promise<Engine> {
  return createEngineOn(await createEdgePlatform(undefined, options ?? {}), options);
}

/**
 * Loads a GGUF model.
 * @param source an absolute URL, `hf:OWNER/REPO[:QUANT]`, an ArrayBuffer, a Blob, or { byteLength,
 * slice(start, end) } over a binding or an asset
 * @throws QuantletError with a code if the file cannot be fetched, read or run; or signal.reason
 */
export function loadModel(source: ModelSource | readonly ModelSource[], options?: LoadOptions): Promise<Model> {
  return loadModelOnEdge(undefined, source, options);
}
