/** Memory of the tensor API's engine: what is taken and what is free. */
import { alignUp } from '../gguf/types.ts';
import { ALIGN } from '../graph/plan.ts';

/** Space in an engine's memory, given and taken back: first fit over a list of free ranges in order of address. */
export interface Arena {
  /** Address of `bytes` bytes at a multiple of 64, or undefined where no range is large enough. */
  take(bytes: number): number | undefined;
  give(at: number, bytes: number): void;
  readonly freeBytes: number;
}

const up = (n: number): number => alignUp(n, ALIGN);

export function createArena(from: number, to: number): Arena {
  let free = [{ at: up(from), end: to }];
  return {
    take(bytes) {
      const size = up(bytes);
      const range = free.find((r) => r.end - r.at >= size);
      if (!range) return undefined;
      range.at += size;
      free = free.filter((r) => r.end > r.at);
      return range.at - size;
    },
    give(at, bytes) {
      free.push({ at, end: at + up(bytes) });
      free.sort((a, b) => a.at - b.at);
      free = free.reduce<typeof free>((list, r) => {
        const before = list[list.length - 1];
        if (before?.end === r.at) before.end = r.end;
        else list.push(r);
        return list;
      }, []);
    },
    get freeBytes() {
      return free.reduce((sum, r) => sum + r.end - r.at, 0);
    },
  };
}
