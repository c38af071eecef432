/**
 * Choice of the build for this runtime, and instantiation of a compiled module. Only this file
 * knows @assemblyscript/loader.
 */
import type { WasmMemory, WasmModule } from '../globals.ts';
import { instantiateSync } from '@assemblyscript/loader';
import { QuantletError } from '../errors.ts';
import { hintOf } from '../nearest.ts';
import { ISAS, type Isa } from '../packed-format.ts';
import type { Kernels } from './abi.ts';
import { outOfMemory } from './memory.ts';

export const BUILDS = ['simd', 'relaxed', 'dotadd', 'simd-threads', 'relaxed-threads', 'dotadd-threads'] as const;
export type Build = (typeof BUILDS)[number];

export const isThreaded = (build: Build): boolean => build.endsWith('-threads');
/** Instruction set of a build, with or without threads. */
export const isaOf = (build: Build): Isa => ISAS.find((isa) => build.startsWith(isa))!;
export const isRelaxed = (build: Build): boolean => !build.startsWith('simd');

/** A module with one function of type () -> v128 and the given body. */
// prettier-ignore
const probe = (...body: number[]): Uint8Array<ArrayBuffer> =>
  new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0,
    10, body.length + 4, 1, body.length + 2, 0, ...body, 0x0b,
  ]);

const SPLAT = [0x41, 0, 0xfd, 0x0f]; // i32.const 0, i8x16.splat

export interface Features {
  simd: boolean;
  relaxed: boolean;
  /**
   * Kind of relaxed i32 dot-add: `fast` is one instruction, so that the dotadd builds are the
   * fastest; `slow` is several; `wrong` gives wrong results, as on Node 20 (and is used without
   * relaxed SIMD).
   */
  dotAdd: 'fast' | 'slow' | 'wrong';
  threads: boolean;
}

/**
 * Features that this runtime can compile, and whether it provides shared memory (in browsers, if
 * the page is cross-origin isolated).
 */
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
  return { simd, relaxed, dotAdd: relaxed ? dotAdd() : 'wrong', threads: sharedMemory() };
}

/**
 * Finds the instructions of the relaxed dot from its results for operands outside its 7 bits: 127 *
 * -1, added twice in i16 and four times in i32.
 *
 *   -254 and -508   | arm64: both operands signed. It is sdot if the core has it; the fallback
 *                   | costs as much as i16 sums.
 *   4 * 127 * 255   | AVX-VNNI: vpdpbusd takes 255 as unsigned.
 *   32767 and 65534 | plain AVX2 (Node 22 to 26, Deno, Bun): five operations, which saturate on the
 *                   | way, as the i16 dot does there.
 *   131068          | Node 20: also wrong for operands in range, once registers are few.
 */
function dotAdd(): Features['dotAdd'] {
  const dot = (...op: number[]): number => {
    const body = [0, 0x20, 0, 0xfd, 0x0f, 0x20, 1, 0xfd, 0x0f, ...op, 0, 0x0b]; // local.get 0, i8x16.splat, local.get 1, i8x16.splat, op, lane 0
    // prettier-ignore
    const bytes = new Uint8Array([
      0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 7, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 3, 2, 1, 0, 7, 5, 1, 1, 0x66, 0, 0,
      10, body.length + 2, 1, body.length, ...body,
    ]);
    return (new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports as { f: (a: number, b: number) => number }).f(127, -1);
  };
  try {
    const i16 = dot(0xfd, 0x92, 0x02, 0xfd, 0x18); // i16x8.relaxed_dot_i8x16_i7x16_s, i16x8.extract_lane_s
    const i32 = dot(0x41, 0, 0xfd, 0x11, 0xfd, 0x93, 0x02, 0xfd, 0x1b); // i32.const 0, i32x4.splat, i32x4.relaxed_dot_i8x16_i7x16_add_s, i32x4.extract_lane
    if ((i16 === -254 && i32 === -508) || i32 === 4 * 127 * 255) return 'fast';
    return i32 === 65534 ? 'slow' : 'wrong';
  } catch {
    return 'wrong'; // a page whose policy forbids synchronous compilation gets a build that is right everywhere
  }
}

function sharedMemory(): boolean {
  try {
    return (
      typeof SharedArrayBuffer === 'function' &&
      new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer
    );
  } catch {
    return false;
  }
}

/**
 * The build to use: the wanted one if it can run, else the best.
 * @throws ERR_NO_SIMD if no build runs, ERR_BUILD_UNAVAILABLE if the wanted one does not
 */
export function pickBuild(features: Features, wanted: string | undefined): Build {
  if (!features.simd)
    throw new QuantletError(
      'ERR_NO_SIMD',
      'this runtime has no WebAssembly SIMD; quantlet needs Node >= 20.19, Chrome >= 91, Firefox >= 89 or Safari >= 16.4',
    );
  if (wanted !== undefined && wanted !== '') {
    const build = BUILDS.find((b) => b === wanted);
    if (!build)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `there is no build "${wanted}"; ${hintOf(wanted, BUILDS)} one of ${BUILDS.join(', ')}`,
      );
    const lacks =
      isRelaxed(build) && !features.relaxed
        ? 'relaxed SIMD'
        : build.startsWith('dotadd') && features.dotAdd === 'wrong'
          ? 'a relaxed dot-add that is right'
          : isThreaded(build) && !features.threads
            ? 'shared memory'
            : '';
    if (lacks)
      throw new QuantletError(
        'ERR_BUILD_UNAVAILABLE',
        `the build "${build}" needs ${lacks}, which this runtime does not offer; leave the build to quantlet or choose another`,
      );
    return build;
  }
  const name = features.dotAdd === 'fast' ? 'dotadd' : features.relaxed ? 'relaxed' : 'simd';
  return features.threads ? `${name}-threads` : name;
}

/**
 * True for modules, also those of another realm, as in Next's edge sandbox, for which instanceof
 * (and so the loader) says no.
 */
export const isModule = (value: unknown): boolean => Object.prototype.toString.call(value) === '[object WebAssembly.Module]';

/**
 * Instance of the kernels over `memory`. Every thread has its own.
 * @throws ERR_OUT_OF_MEMORY
 */
export function instantiate(module: WasmModule, memory: WasmMemory): Kernels {
  const imports = { env: { memory } };
  try {
    const { exports } = module instanceof WebAssembly.Module ? instantiateSync(module, imports) : new WebAssembly.Instance(module, imports);
    return exports as unknown as Kernels;
  } catch (cause) {
    throw outOfMemory('instantiating the kernels', cause);
  }
}
