/** Platform of edge functions, and of other runtimes with one thread and precompiled kernels. */
import type { LoadOptions } from '../load-options.ts';
import { loadModelOn } from '../load/load-model.ts';
import type { Model } from '../model.ts';
import { isPlain } from '../options.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { Platform } from '../platform.ts';
import { toBytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import { createSingle } from '../threads/single.ts';
import { detectFeatures } from '../wasm/load.ts';
import { createMemories } from '../wasm/memory.ts';
import { QuantletError } from '../errors.ts';
import { hubFor, locate } from '../hub/locate.ts';
import { openUrl } from '../io/open-url.ts';
import { buildOf, compileWasm } from './wasm.ts';

/**
 * Uses a timer, not a microtask: without one between tokens, a streamed response arrives in one
 * piece.
 */
const macrotask = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 0));

/**
 * Executor that yields to the event loop after every step. It cannot slice by time, because the
 * clock may stand still during computation (workerd).
 */
function createStepwise(module: WebAssembly.Module, memoryBytes: readonly number[]): Executor {
  const single = createSingle(module, createMemories(memoryBytes, false), macrotask); // Next's edge sandbox has a setImmediate that throws
  return {
    ...single,
    async run(step, signal) {
      await single.run(step, signal);
      await macrotask();
    },
  };
}

/**
 * The file is read whole before loading ends: other requests may use the model, but they cannot
 * read from a response that belongs to this request.
 */
export async function createEdgePlatform(
  own: WebAssembly.Module | undefined,
  options: Pick<LoadOptions, 'wasm' | 'build' | 'hub' | 'headers'>,
): Promise<Platform> {
  const module = options.wasm === undefined ? own : await compileWasm(options.wasm);
  if (!module)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      "quantlet/core loads no kernels by itself; pass { wasm }: one of the package's dist/wasm/*.wasm as a WebAssembly.Module, its bytes, a Response or a URL",
    );
  const build = buildOf(module, options.build);
  return {
    async open(source, signal) {
      if (typeof source !== 'string' && !(source instanceof URL)) return { bytes: toBytes(source), close: async () => {} };
      if (!URL.canParse(source))
        throw new QuantletError(
          'ERR_SOURCE',
          `"${String(source)}" is not an absolute URL; expected one, or hf:OWNER/REPO, or a Blob, an ArrayBuffer or { byteLength, slice(start, end) }`,
        );
      const { url, headers } = await locate(hubFor({ ...options, signal }), source);
      return openUrl(url, { headers, signal });
    },
    features: () => ({ ...detectFeatures(), threads: false }),
    forcedBuild: () => build,
    module: async () => module,
    defaultThreads: () => 1,
    createThreadPool() {
      throw new QuantletError(
        'ERR_BUILD_UNAVAILABLE',
        `the build "${build}" needs threads, which this entry does not have; use simd or relaxed`,
      );
    },
    createExecutor: async (module, memoryBytes) => createStepwise(module, memoryBytes),
  };
}

/** loadModel of the edge entries, each of which passes its own kernels. */
export async function loadModelOnEdge(
  own: WebAssembly.Module | undefined,
  source: ModelSource | readonly ModelSource[],
  options: LoadOptions | undefined,
): Promise<Model> {
  // No warm-up: it is for machines that keep running, and it waits for a clock that may stand still
  // here.
  return loadModelOn((checked) => createEdgePlatform(own, checked), source, isPlain(options) ? { ...options, warmUp: false } : options);
}
