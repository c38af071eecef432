/**
 * Allocation of a memory's bytes: for a whole model, for the intermediate results of a plan, and
 * for the tensors of quantlet/core.
 */
import { alignUp } from '../align.ts';

/** A cache line: two tensors never share one, so that threads do not write to one line. */
export const ALIGN = 64;

export interface Allocator {
  /** True if there is a free range of that many bytes. */
  fits(bytes: number): boolean;
  /**
   * Allocates that many bytes from the smallest free range that fits (best fit). Returns the
   * address, a multiple of ALIGN.
   * @throws RangeError if no range fits
   */
  take(bytes: number): number;
  /** Frees the bytes that take() returned for the same size. */
  give(at: number, bytes: number): void;
  readonly freeBytes: number;
  /** End of the highest range ever allocated. */
  readonly end: number;
}

const up = (n: number): number => alignUp(n, ALIGN);

/** Allocator of the addresses from `from` up to `to`, by default without a limit. */
export function createAllocator(from: number, to = Infinity): Allocator {
  /** Free ranges in ascending order, with allocated bytes between them. */
  let free = [{ at: up(from), end: to }];
  let end = up(from);
  const find = (size: number): (typeof free)[number] | undefined => {
    let best: (typeof free)[number] | undefined;
    for (const range of free) {
      const bytes = range.end - range.at;
      if (bytes >= size && (best === undefined || bytes < best.end - best.at)) best = range;
    }
    return best;
  };
  return {
    fits: (bytes) => find(up(bytes)) !== undefined,
    take(bytes) {
      const size = up(bytes);
      const range = find(size);
      if (!range) throw new RangeError(`there is no free range of ${size} bytes`);
      const { at } = range;
      range.at += size;
      if (range.at === range.end) free = free.filter((r) => r !== range);
      end = Math.max(end, range.at);
      return at;
    },
    give(at, bytes) {
      free.push({ at, end: at + up(bytes) });
      free.sort((a, b) => a.at - b.at);
      free = free.reduce<typeof free>((list, r) => {
        const before = list.at(-1);
        if (before?.end === r.at) before.end = r.end;
        else list.push(r);
        return list;
      }, []);
    },
    get freeBytes() {
      return free.reduce((sum, r) => sum + r.end - r.at, 0);
    },
    get end() {
      return end;
    },
  };
}
