/** Kernels of a page: the chosen build from its own chunk, or kernels passed by the caller. */
import type { WasmModule } from '../globals.ts';
import { QuantletError } from '../errors.ts';
import { BUILDS, isModule, isThreaded, type Build } from '../wasm/load.ts';
import { withSharedMemory } from '../wasm/shared-memory.ts';

/** Compiled kernels, their bytes, or their URL. */
export type WasmSource = WasmModule | ArrayBuffer | ArrayBufferView | Response | URL | string;

type Kind = 'simd' | 'relaxed' | 'dotadd';

// A literal import for each, so that a bundler makes a chunk of each kind, and a page loads only
// the one it runs.
const CHUNKS: { readonly [K in Kind]: () => Promise<{ readonly deflated: string }> } = {
  simd: () => import('../inline/simd.js'),
  relaxed: () => import('../inline/relaxed.js'),
  dotadd: () => import('../inline/dotadd.js'),
};

const modules = new Map<Build, Promise<WasmModule>>();

async function inflate(build: Build): Promise<WasmModule> {
  const { deflated } = await CHUNKS[build.replace('-threads', '') as Kind]();
  const bytes = Uint8Array.from(atob(deflated), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const kernels = new Uint8Array(await new Response(stream).arrayBuffer());
  try {
    return await WebAssembly.compile(withSharedMemory(kernels, isThreaded(build)));
  } catch (cause) {
    throw new QuantletError(
      'ERR_BUILD_UNAVAILABLE',
      `the kernels cannot be compiled here (${cause instanceof Error ? cause.message : String(cause)}); if the page has a content security policy, its script-src must allow 'wasm-unsafe-eval'`,
      { cause },
    );
  }
}

/**
 * The package's build, compiled once for all models of the page.
 * @throws ERR_BUILD_UNAVAILABLE
 */
export function inlinedModule(build: Build): Promise<WasmModule> {
  const known = modules.get(build) ?? inflate(build);
  modules.set(build, known);
  known.catch(() => modules.delete(build));
  return known;
}

/** @throws ERR_DOWNLOAD, ERR_INVALID_ARGUMENT */
export async function compileWasm(source: WasmSource): Promise<WasmModule> {
  if (isModule(source)) return source as WasmModule;
  const bytes =
    source instanceof Response || source instanceof URL || typeof source === 'string' ? await fetched(source) : (source as BufferSource);
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the option wasm cannot be compiled here (${cause instanceof Error ? cause.message : String(cause)}); expected one of the package's dist/wasm/*.wasm that this runtime supports`,
      { cause },
    );
  }
}

async function fetched(source: Response | URL | string): Promise<ArrayBuffer> {
  const response =
    source instanceof Response
      ? source
      : await fetch(source).catch((cause: unknown) => {
          throw new QuantletError(
            'ERR_DOWNLOAD',
            `the kernels at ${String(source)} cannot be fetched (${cause instanceof Error ? cause.message : String(cause)}); expected the absolute URL of one of the package's dist/wasm/*.wasm`,
            { cause },
          );
        });
  if (!response.ok)
    throw new QuantletError(
      'ERR_DOWNLOAD',
      `the kernels at ${response.url} answered ${response.status} ${response.statusText}; expected the package's dist/wasm/*.wasm there`,
    );
  return response.arrayBuffer();
}

/**
 * Build of a module, from a custom section that scripts/build.mjs writes.
 * @throws ERR_INVALID_ARGUMENT if the module is not a build, or not the wanted one
 */
export function buildOf(module: WasmModule, wanted?: string): Build {
  const [section] = WebAssembly.Module.customSections(module, 'quantlet');
  const name = section ? new TextDecoder().decode(section) : wanted;
  const build = BUILDS.find((b) => b === name);
  if (build && wanted && build !== wanted)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the option wasm is the build "${build}", but the option build asks for "${wanted}"; give only one of them`,
    );
  if (!build)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the option wasm is not one of the package's dist/wasm/*.wasm (${name ? `it says "${name}"` : 'it does not say which build it is'}); expected one of ${BUILDS.join(', ')}`,
    );
  return build;
}
