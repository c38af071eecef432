/**
 * Touches the pages of weights before threads read them. The system has to find memory for each
 * page, which takes about half of the time of reading.
 */
import { alignUp } from '../align.ts';
import { yieldToEventLoop } from '../event-loop.ts';
import type { Executor } from '../threads/executor.ts';
import { memoryOf, MEMORY_SPACE } from '../wasm/memory.ts';

/**
 * Page size of Linux on x64. Larger pages are touched several times, which costs next to nothing.
 */
const SYSTEM_PAGE = 4096;
/** Pages touched in one go: about a millisecond, after which this thread can do other work. */
const PAGES_AT_ONCE = 256;

/**
 * Touches the pages of a memory before the address `end`, from the last page to the first: readers
 * begin at the first. A page that one of them has touched costs the other nothing.
 * @param isRead true when the weights have been read
 */
export async function touchPages({ view }: Pick<Executor, 'view'>, end: number, isRead: () => boolean): Promise<void> {
  const first = memoryOf(end) * MEMORY_SPACE;
  const bytes = view(first, end - first);
  if (!bytes) return;
  const words = new Int32Array(bytes.buffer);
  const [page, step] = [SYSTEM_PAGE / 4, (PAGES_AT_ONCE * SYSTEM_PAGE) / 4];
  for (let to = alignUp(bytes.length, SYSTEM_PAGE) / 4; to > 0; to -= step) {
    await yieldToEventLoop();
    if (isRead()) return;
    // Keeps the value. V8's Atomics.add and Atomics.or read before they write: the read maps the
    // shared page of zeros, and replacing that page involves all cores.
    for (let i = Math.max(0, to - step); i < to; i += page) Atomics.compareExchange(words, i, 0, 0);
  }
}
