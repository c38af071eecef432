/** Options for pages and edge functions. */
import type { CreateWorker } from './workers.ts';
import type { WasmSource } from './wasm.ts';

/** Options of loadModel about what comes over the net. */
export interface WebOptions {
  /** The kernels to run, in place of the ones that come with the package: one of its dist/wasm/*.wasm. */
  wasm?: WasmSource;
  /** Browsers: makes a worker that runs the package's dist/worker/web.js; only for pages whose policy or bundler needs a way of its own. */
  createWorker?: CreateWorker;
  /** Keep a model that is loaded from a URL (default true; edge functions keep none); `reload` gets it again. */
  cache?: boolean | 'reload';
  /** Headers of the model's requests, `{ authorization }` for instance. */
  headers?: Readonly<Record<string, string>>;
}
