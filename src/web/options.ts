/** Options for pages and edge functions. */
import type { CreateWorker } from './workers.ts';
import type { WasmSource } from './wasm.ts';

/** Options of loadModel for anything loaded over the network. */
export interface WebOptions {
  /** Kernels to run instead of the package's own: one of its dist/wasm/*.wasm. */
  wasm?: WasmSource | undefined;
  /**
   * Browsers: creates a worker that runs the package's dist/worker/web.js. Needed only if the
   * page's policy or bundler does not allow the default.
   */
  createWorker?: CreateWorker | undefined;
  /**
   * Caches a model that is loaded from a URL (default true; edge functions never do). `reload`
   * downloads it again.
   */
  cache?: boolean | 'reload' | undefined;
  /** Headers of the model's requests, for example `{ authorization }`. */
  headers?: Readonly<Record<string, string>> | undefined;
}
