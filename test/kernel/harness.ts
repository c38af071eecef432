/**
 * Calls kernels directly, without the engine: every build of dist/wasm over a plain memory, and an
 * arena with guard bytes.
 *
 *   describe.each(BUILDS)('%s', (build) => {
 *     const k = instantiate(build);
 *     it('...', () => {
 *       k.arena.reset();
 *       const x = k.arena.f32(values);            // copied in, returns the pointer
 *       const y = k.arena.alloc(64, 1);           // uninitialised; 1 byte off 16-byte alignment
 *       k.call('dequantize_row_q4_0', x, y, 32);
 *       k.arena.checkGuards();                    // nothing was written outside any allocation
 *       const out = k.arena.readF32(y, 32);
 *     });
 *   });
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { TYPE, type TypeName } from '../../src/type-traits.ts';
import type { Build } from '../../src/wasm/load.ts';
import { createQuantizer } from '../../src/wasm/quantizer.ts';

export type { Build };
export { BUILDS } from '../builds.ts';

const GUARD = 64;
const GUARD_BYTE = 0xa5;

export interface Arena {
  /** Frees everything and fills the arena with guard bytes. Call it first in each test. */
  reset(): void;
  /**
   * Allocates `bytes` bytes at a multiple of 16 plus `offset`, filled with 0xa5, with guard bytes
   * on both sides.
   */
  alloc(bytes: number, offset?: number): number;
  /** Copies bytes in; returns the pointer. */
  bytes(data: Uint8Array, offset?: number): number;
  f32(data: ArrayLike<number>, offset?: number): number;
  i32(data: ArrayLike<number>, offset?: number): number;
  readBytes(p: number, n: number): Uint8Array<ArrayBuffer>;
  readF32(p: number, n: number): Float32Array<ArrayBuffer>;
  readI32(p: number, n: number): Int32Array<ArrayBuffer>;
  /** Throws if a guard byte was overwritten, naming the allocation and the byte. */
  checkGuards(): void;
}

export interface Kernels {
  readonly build: Build;
  readonly memory: WebAssembly.Memory;
  readonly exports: Readonly<Record<string, (...args: number[]) => number>>;
  readonly arena: Arena;
  /** Calls an export. A missing one throws with its name. */
  call(name: string, ...args: number[]): number;
}

function createArena(memory: WebAssembly.Memory, base: number): Arena {
  const u8 = new Uint8Array(memory.buffer);
  const allocations: { p: number; bytes: number }[] = [];
  const start = (base + 15) & ~15;
  let top = start;
  const alloc = (bytes: number, offset = 0): number => {
    const p = ((top + GUARD + 15) & ~15) + offset;
    top = p + bytes + GUARD;
    if (top > u8.length) throw new Error(`test arena full: ${top} > ${u8.length} bytes; give instantiate() more pages`);
    allocations.push({ p, bytes });
    return p;
  };
  const bytes = (data: Uint8Array, offset = 0): number => {
    const p = alloc(data.length, offset);
    u8.set(data, p);
    return p;
  };
  const readBytes = (p: number, n: number): Uint8Array<ArrayBuffer> => {
    const out = new Uint8Array(n);
    out.set(u8.subarray(p, p + n));
    return out;
  };
  return {
    reset() {
      u8.fill(GUARD_BYTE, start, Math.max(top, start));
      allocations.length = 0;
      top = start;
    },
    alloc,
    bytes,
    f32: (data, offset) => bytes(new Uint8Array(Float32Array.from(data).buffer), offset),
    i32: (data, offset) => bytes(new Uint8Array(Int32Array.from(data).buffer), offset),
    readBytes,
    readF32: (p, n) => new Float32Array(readBytes(p, n * 4).buffer),
    readI32: (p, n) => new Int32Array(readBytes(p, n * 4).buffer),
    checkGuards() {
      let from = start;
      for (const [i, a] of [...allocations, { p: top, bytes: 0 }].entries()) {
        for (let q = from; q < a.p; q++) {
          if (u8[q] !== GUARD_BYTE) {
            const before = allocations[i - 1];
            throw new Error(
              `guard byte at ${q} is ${u8[q]}: ${before ? `${q - before.p - before.bytes} bytes after the end of allocation ${i - 1}, ` : ''}${a.p - q} bytes before allocation ${i}`,
            );
          }
        }
        from = a.p + a.bytes;
      }
    },
  };
}

/** The module that quantises the rows of files. */
export const quantizerModule = new WebAssembly.Module(readFileSync(new URL('../../dist/wasm/quantize.wasm', import.meta.url)));

const quantizer = createQuantizer(quantizerModule);

/** Rows of ne0 f32, quantised as in files. */
export function quantized(type: TypeName, floats: Float32Array, ne0: number, imatrix?: Float32Array): Uint8Array<ArrayBuffer> {
  const result = quantizer.quantize(TYPE[type], floats, ne0, imatrix);
  if (typeof result === 'number') throw new Error(`${type}: row ${result} was refused`);
  return result;
}

/** One build over its own memory of `pages` x 64 KiB. */
export function instantiate(build: Build, pages = 64): Kernels {
  const path = fileURLToPath(new URL(`../../dist/wasm/${build}.wasm`, import.meta.url));
  if (!existsSync(path)) throw new Error(`${path} is missing: run "npm run build" first`);
  return over(new WebAssembly.Module(readFileSync(path)), build, pages);
}

/** Instantiates a module that was compiled elsewhere, in the way of `build`. */
export function over(module: WebAssembly.Module, build: Build, pages = 64): Kernels {
  const shared = build.endsWith('-threads');
  // The maximum of an imported shared memory may not exceed the module's (asconfig.json: 65536
  // pages).
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  const exports = instance.exports as Record<string, (...args: number[]) => number>;
  const arena = createArena(memory, exports.heap_base());
  new Uint8Array(memory.buffer).fill(GUARD_BYTE, exports.heap_base());
  return {
    build,
    memory,
    exports,
    arena,
    call(name, ...args) {
      const f = exports[name];
      if (!f) throw new Error(`build ${build} exports no ${name}`);
      return f(...args);
    },
  };
}

/** Reproducible uniform numbers in [0, 1): mulberry32. */
export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** `n` normally distributed f32 (a sum of uniforms is good enough for weights). */
export function gaussian(n: number, seed: number, scale = 1): Float32Array<ArrayBuffer> {
  const r = random(seed);
  return Float32Array.from({ length: n }, () => {
    let s = -6;
    for (let i = 0; i < 12; i++) s += r();
    return s * scale;
  });
}
