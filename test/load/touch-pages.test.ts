/** Pages of weights are touched before threads read them. */
import { expect, it, vi } from 'vitest';
import { touchPages } from '../../src/load/touch-pages.ts';
import { yieldToEventLoop } from '../../src/event-loop.ts';
import { bytesIn, MEMORY_SPACE } from '../../src/wasm/memory.ts';

const PAGE = 4096;
const AT_ONCE = 256;

it('touches every page from the last one to the first, a few at a time, and changes nothing; in the second memory likewise', async () => {
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
  const bytes = new Uint8Array(memory.buffer);
  bytes.fill(255, 5 * PAGE, 6 * PAGE);
  const before = bytes.slice();
  const wanted = 3 * AT_ONCE * PAGE - 100;
  const touch = vi.spyOn(Atomics, 'compareExchange');
  for (const [memories, first] of [
    [[memory], 0],
    [[new WebAssembly.Memory({ initial: 1 }), memory], MEMORY_SPACE],
  ] as const) {
    touch.mockClear();
    const done = touchPages({ view: (at, length) => bytesIn(memories, at, length) }, first + wanted, () => false);
    expect(touch).not.toHaveBeenCalled();
    await yieldToEventLoop();
    await yieldToEventLoop();
    expect(touch.mock.calls.length).toBeLessThanOrEqual(2 * AT_ONCE);
    await done;
    const pages = touch.mock.calls.map(([, word]) => Math.floor((4 * word) / PAGE));
    expect(pages).toHaveLength(3 * AT_ONCE);
    expect(new Set(pages)).toEqual(new Set(Array.from({ length: 3 * AT_ONCE }, (_, i) => i)));
    expect(pages[0]).toBeGreaterThan(pages.at(-1)!);
    expect(touch.mock.calls.every(([words]) => words.buffer === memory.buffer)).toBe(true);
    expect(Buffer.from(bytes.buffer).equals(before)).toBe(true);
  }
  touch.mockRestore();
});

it('ends when the weights have been read, and does nothing to memories of another thread', async () => {
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true });
  const touch = vi.spyOn(Atomics, 'compareExchange');
  const view = (at: number, length: number): Uint8Array => bytesIn([memory], at, length);
  await touchPages({ view }, 64 * 65536, () => touch.mock.calls.length >= AT_ONCE);
  expect(touch.mock.calls).toHaveLength(AT_ONCE);
  touch.mockClear();
  await touchPages({ view: () => undefined }, 64 * 65536, () => false);
  expect(touch).not.toHaveBeenCalled();
  touch.mockRestore();
});
