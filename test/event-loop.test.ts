/** yieldToEventLoop() works wherever quantlet runs. */
import { afterEach, expect, it, vi } from 'vitest';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

it.each([
  [
    'throws, as in the edge sandbox of Next',
    () => {
      throw new Error('A Node.js API is used (setImmediate) which is not supported in the Edge Runtime.');
    },
  ],
  ['is missing', undefined],
])('a setImmediate that %s', async (_, immediate) => {
  vi.stubGlobal('setImmediate', immediate);
  const { yieldToEventLoop } = await import('../src/event-loop.ts');
  const order: string[] = [];
  setTimeout(() => order.push('timer'), 0);
  await new Promise((resolve) => setTimeout(resolve, 5));
  await yieldToEventLoop();
  expect(order).toEqual(['timer']);
});
