/**
 * quantlet/core on Node, Deno and Bun: createEngine has its own kernels and threads; the rest is as
 * in core.ts.
 */
import { createEngineOn } from '../core/create.ts';
import type { Engine } from '../core/engine.ts';
import { createEngine as createEdgeEngine, type CreateEngineOptions } from './core.ts';
import { enableFor, platform } from './node-platform.ts';

export * from '../core/api.ts';
export * from './common.ts';
export { loadModel, type CreateEngineOptions } from './core.ts';

/** As createEngine of core.ts, but `wasm` is optional, and threads are workers. */
export async function createEngine(options: CreateEngineOptions = {}): Promise<Engine> {
  if (options?.wasm !== undefined) return createEdgeEngine(options);
  enableFor(options?.build);
  return createEngineOn(platform, options);
}
