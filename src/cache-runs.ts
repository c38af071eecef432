/**
 * Where the first cells of a slot lie in the KV cache (assembly/ops/kv_cache.ts), run of bytes by run of bytes: keys in whole groups of 16 cells,
 * a head's in one piece; values part by part, in each by 16 dimensions, in pairs of cells where they have blocks, and then their scales.
 */
import type { Engine } from './engine.ts';
import { alignUp } from './gguf/types.ts';
import { ATTENTION_PART, K_CELLS } from './graph/layout.ts';
import type { Tensor } from './graph/tensor.ts';
import type { Range } from './threads/executor.ts';

export interface CacheRun extends Range {
  /** Gives what was read from the cache the bytes that any build and any slot would have there: in place. */
  readonly saved?: (bytes: Uint8Array) => void;
  /** Gives them the order of this build again. */
  readonly loaded?: (bytes: Uint8Array) => void;
}

type Types = Pick<Engine, 'build' | 'caches' | 'slotCells'>;
const hasBlocks = ({ type }: Tensor): boolean => type.blckSize > 1;

export function* cacheRuns({ build, caches, slotCells }: Types, slot: number, n: number): Generator<CacheRun> {
  const first = slot * slotCells, groups = alignUp(n, K_CELLS);
  for (const { k, v } of caches) {
    const pairs = hasBlocks(k) && build.startsWith('simd');
    const saved = (bytes: Uint8Array): void => {
      if (pairs) reorder(bytes, k, FROM_PAIRS);
      if (n < groups) clearKeys(bytes.subarray(bytes.length - K_CELLS * k.nb[1]), k, n % K_CELLS);
    };
    const loaded = pairs ? (bytes: Uint8Array): void => reorder(bytes, k, TO_PAIRS) : undefined;
    for (let head = 0; head < k.ne[2]; head++) {
      yield { at: k.data + (head * k.ne[1] + first) * k.nb[1], length: groups * k.nb[1], saved, loaded };
      for (let from = 0; from < n; from += ATTENTION_PART) yield* values(v, v.data + (head * v.ne[1] + first + from) * v.nb[1], Math.min(ATTENTION_PART, n - from));
    }
  }
}

/** n cells of a part of values at `at`. */
function* values(v: Tensor, at: number, n: number): Generator<CacheRun> {
  const blocks = hasBlocks(v) ? v.ne[0] / v.type.blckSize : 0, planes = v.ne[0] / 16, step = (v.nb[1] - 2 * blocks) / planes;
  const saved = blocks && n % 2 ? (bytes: Uint8Array): void => clear(bytes.subarray(-2 * step), v.type.name === 'q4_0' ? 2 : 1, 2, 1) : undefined;
  for (let i = 0; i < planes; i++, at += ATTENTION_PART * step) yield { at, length: (blocks ? alignUp(n, 2) : n) * step, saved };
  for (let i = 0; i < blocks; i++, at += ATTENTION_PART * 2) yield { at, length: 2 * n };
}

/** Zeros for the cells of the last group of keys from `from` on: what an earlier sequence left there must not be saved. */
function clearKeys(group: Uint8Array, k: Tensor, from: number): void {
  if (!hasBlocks(k)) return clear(group, k.type.typeSize, K_CELLS, from);
  const scales = 2 * K_CELLS, block = K_CELLS * k.type.typeSize;
  for (let at = 0; at < group.length; at += block) {
    clear(group.subarray(at, at + scales), 2, K_CELLS, from);
    clear(group.subarray(at + scales, at + block), 4, K_CELLS, from);
  }
}

/** `bytes` are units of `size` of so many cells in turn: zeros for those of cells from `from` on. */
function clear(bytes: Uint8Array, size: number, cells: number, from: number): void {
  for (let at = 0; at < bytes.length; at += cells * size) bytes.fill(0, at + from * size, at + cells * size);
}

/**
 * Builds without relaxed SIMD keep the codes of 4 keys' 4 dimensions as bytes 0 and 1 of each, then bytes 2 and 3 (assembly/dot.ts, byte_of),
 * those of q8_0 + 128 (assembly/packed/wide.ts).
 */
const FROM_PAIRS = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15], TO_PAIRS = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];

function reorder(bytes: Uint8Array, k: Tensor, from: readonly number[]): void {
  const scales = 2 * K_CELLS, block = K_CELLS * k.type.typeSize, flip = k.type.name === 'q8_0' ? 0x80 : 0;
  for (let at = 0; at < bytes.length; at += block) {
    for (let i = at + scales; i < at + block; i += 16) bytes.set(from.map((j) => bytes[i + j] ^ flip), i);
  }
}
