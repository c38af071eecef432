/**
 * Byte ranges of the KV cache that hold the first cells of a slot (layout:
 * assembly/ops/kv_cache.ts). A head's keys are one range of whole groups of 16 cells. Its values
 * are several ranges for each KV split: one for every 16 dimensions (of pairs of cells, for block
 * types), then one for the scales of each block. Types that are kept as rows have one range per
 * head for keys, and one for values.
 */
import type { ModelEngine } from './model-engine.ts';
import type { Slot } from './slots.ts';
import { alignUp } from '../align.ts';
import { hasBlocks, hasRows } from '../graph/attention-ops.ts';
import { KV_SPLIT, K_CELLS } from '../graph/layout.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { ByteRange } from '../threads/executor.ts';

export interface CacheRun extends ByteRange {
  /**
   * Converts bytes of the cache, in place, to their saved form, which is the same for every build
   * and slot.
   */
  readonly saved?: (bytes: Uint8Array) => void;
  /** Converts saved bytes, in place, to the order of this build. */
  readonly loaded?: (bytes: Uint8Array) => void;
}

type Caches = Pick<ModelEngine, 'build' | 'caches' | 'states'>;

/**
 * Ranges of a slot's first `tokens` cells, of the first `encoded` cells of its encoded prompt, and
 * of its recurrent state in `cell`.
 */
export function* cacheRuns(
  { build, caches, states }: Caches,
  { firstCell }: Slot,
  { tokens, encoded = 0 }: { readonly tokens: number; readonly encoded?: number | undefined },
  cell: number,
): Generator<CacheRun> {
  for (const { data, nb } of states) yield { at: data + cell * nb[3], length: nb[3] };
  for (const { k, v, holds } of caches) {
    if (holds === 'step') continue;
    const n = holds === 'prompt' ? encoded : tokens;
    const groups = alignUp(n, K_CELLS);
    const pairs = hasBlocks(k.type) && build.startsWith('simd');
    const saved = (bytes: Uint8Array): void => {
      if (pairs) reorder(bytes, k, FROM_PAIRS);
      if (n < groups) clearKeys(bytes.subarray(bytes.length - K_CELLS * k.nb[1]), k, n % K_CELLS);
    };
    const loaded = pairs ? (bytes: Uint8Array): void => reorder(bytes, k, TO_PAIRS) : undefined;
    const rows = (t: Tensor, head: number): CacheRun => ({ at: t.data + (head * t.ne[1] + firstCell) * t.nb[1], length: n * t.nb[1] });
    for (let head = 0; head < k.ne[2]; head++) {
      if (hasRows(k.type)) yield rows(k, head);
      else yield { ...rows(k, head), length: groups * k.nb[1], saved, loaded };
      if (hasRows(v.type)) yield rows(v, head);
      else
        for (let from = 0; from < n; from += KV_SPLIT)
          yield* values(v, v.data + (head * v.ne[1] + firstCell + from) * v.nb[1], Math.min(KV_SPLIT, n - from));
    }
  }
}

/** Ranges of n cells of the KV split whose values begin at `at`. */
function* values(v: Tensor, at: number, n: number): Generator<CacheRun> {
  const blocks = hasBlocks(v.type) ? v.ne[0] / v.type.blckSize : 0;
  const planes = v.ne[0] / 16;
  const step = (v.nb[1] - 2 * blocks) / planes;
  const saved =
    blocks && n % 2 ? (bytes: Uint8Array): void => clear(bytes.subarray(-2 * step), v.type.name === 'q4_0' ? 2 : 1, 2, 1) : undefined;
  for (let i = 0; i < planes; i++, at += KV_SPLIT * step) yield { at, length: (blocks ? alignUp(n, 2) : n) * step, saved };
  for (let i = 0; i < blocks; i++, at += KV_SPLIT * 2) yield { at, length: 2 * n };
}

/**
 * Clears the cells of a group of keys from `from` on, so that bytes of an earlier sequence are not
 * saved.
 */
function clearKeys(group: Uint8Array, k: Tensor, from: number): void {
  if (!hasBlocks(k.type)) return clear(group, k.type.typeSize, K_CELLS, from);
  const scales = 2 * K_CELLS;
  const block = K_CELLS * k.type.typeSize;
  for (let at = 0; at < group.length; at += block) {
    clear(group.subarray(at, at + scales), 2, K_CELLS, from);
    clear(group.subarray(at + scales, at + block), 4, K_CELLS, from);
  }
}

/**
 * Clears the cells from `from` on in bytes that consist of groups of `cells` cells, `size` bytes
 * per cell.
 */
function clear(bytes: Uint8Array, size: number, cells: number, from: number): void {
  for (let at = 0; at < bytes.length; at += cells * size) bytes.fill(0, at + from * size, at + cells * size);
}

/**
 * Order of 16 key codes (4 keys x 4 dimensions) in builds without relaxed SIMD: bytes 0 and 1 of
 * each key, then bytes 2 and 3 (byte_of in assembly/matmul/dot.ts). Codes of q8_0 also have 128
 * added (assembly/matmul/dot_signed.ts).
 */
const FROM_PAIRS = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
const TO_PAIRS = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];

function reorder(bytes: Uint8Array, k: Tensor, from: readonly number[]): void {
  const scales = 2 * K_CELLS;
  const block = K_CELLS * k.type.typeSize;
  const flip = k.type.name === 'q8_0' ? 0x80 : 0;
  for (let at = 0; at < bytes.length; at += block) {
    for (let i = at + scales; i < at + block; i += 16)
      bytes.set(
        from.map((j) => bytes[i + j] ^ flip),
        i,
      );
  }
}
