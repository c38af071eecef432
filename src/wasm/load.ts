/** Which build runs here, and how a compiled one becomes kernels. The only file that knows @assemblyscript/loader. */
import { instantiateSync } from '@assemblyscript/loader';
import { QuantletError } from '../errors.ts';
import type { Kernels } from './abi.ts';
import { ARENA_BASE } from './memory.ts';

export const BUILDS = ['simd', 'relaxed', 'simd-threads', 'relaxed-threads'] as const;
export type Build = (typeof BUILDS)[number];

export const isThreaded = (build: Build): boolean => build.endsWith('-threads');
export const isRelaxed = (build: Build): boolean => build.startsWith('relaxed');

/** A module with one function of type () -> v128 and the given body. */
const probe = (...body: number[]): Uint8Array<ArrayBuffer> =>
  new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10, body.length + 4, 1, body.length + 2, 0, ...body, 0x0b]);

const SPLAT = [0x41, 0, 0xfd, 0x0f]; // i32.const 0, i8x16.splat

export interface Features {
  simd: boolean;
  relaxed: boolean;
  threads: boolean;
}

/** What this runtime can compile, and whether it hands out shared memory (browsers do where the page is cross-origin isolated). */
export function detectFeatures(): Features {
  const valid = (bytes: Uint8Array<ArrayBuffer>): boolean => {
    try {
      return WebAssembly.validate(bytes);
    } catch {
      return false;
    }
  };
  const simd = valid(probe(...SPLAT));
  const relaxed = simd && valid(probe(...SPLAT, ...SPLAT, 0xfd, 0x80, 0x02)); // i8x16.relaxed_swizzle
  return { simd, relaxed, threads: sharedMemory() };
}

function sharedMemory(): boolean {
  try {
    return typeof SharedArrayBuffer === 'function' && new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}

/**
 * The build to use: the wanted one where it can run, else the best.
 * @throws ERR_NO_SIMD where nothing runs, ERR_BUILD_UNAVAILABLE where the wanted one does not
 */
export function pickBuild(features: Features, wanted: string | undefined): Build {
  if (!features.simd) throw new QuantletError('ERR_NO_SIMD', 'this runtime has no WebAssembly SIMD; quantlet needs Node >= 16.4, Chrome >= 91, Firefox >= 89 or Safari >= 16.4');
  if (wanted !== undefined && wanted !== '') {
    const build = BUILDS.find((b) => b === wanted);
    if (!build) throw new QuantletError('ERR_INVALID_ARGUMENT', `there is no build "${wanted}"; expected one of ${BUILDS.join(', ')}`);
    const lacks = isRelaxed(build) && !features.relaxed ? 'relaxed SIMD' : isThreaded(build) && !features.threads ? 'shared memory' : '';
    if (lacks) throw new QuantletError('ERR_BUILD_UNAVAILABLE', `the build "${build}" needs ${lacks}, which this runtime does not offer; leave the build to quantlet or choose another`);
    return build;
  }
  return features.relaxed ? (features.threads ? 'relaxed-threads' : 'relaxed') : features.threads ? 'simd-threads' : 'simd';
}

/** Also a module of another realm, as Next's edge sandbox hands out: instanceof and with it the loader do not know those. */
export const isModule = (value: unknown): boolean => Object.prototype.toString.call(value) === '[object WebAssembly.Module]';

/** An instance of the kernels over `memory`; every thread has its own. */
export function instantiate(module: WebAssembly.Module, memory: WebAssembly.Memory): Kernels {
  const imports = { env: { memory } };
  const { exports } = module instanceof WebAssembly.Module ? instantiateSync(module, imports) : new WebAssembly.Instance(module, imports);
  return exports as unknown as Kernels;
}

/**
 * Kernels over a memory of their own, for asking about sizes before the real memory is made. Nothing may be computed with them.
 */
export function kernelFacts(module: WebAssembly.Module, shared: boolean): Kernels {
  const pages = ARENA_BASE / 65536;
  return instantiate(module, new WebAssembly.Memory({ initial: pages, maximum: pages, shared }));
}
