/** Loading on edge functions, which have one thread. */
import { readFileSync } from 'node:fs';
import { afterEach, expect, it, vi } from 'vitest';
import { loadModelOnEdge } from '../../src/web/edge.ts';
import { at, llamaModel } from '../support.ts';

afterEach(() => vi.unstubAllGlobals());

it('waits for no turn of the event loop: a runtime may refuse setImmediate, and a message channel belongs to one request', async () => {
  const refused = vi.fn(() => {
    throw new Error('A Node.js API is used (setImmediate) which is not supported in the Edge Runtime.');
  });
  const module = new WebAssembly.Module(readFileSync(at('dist/wasm/simd.wasm')));
  vi.stubGlobal('setImmediate', refused);
  const model = await loadModelOnEdge(module, readFileSync(llamaModel), { contextLength: 64 });
  const { ids } = await model.generate('the', { maxTokens: 3, temperature: 0, ignoreEos: true }).result();
  await model.dispose();
  expect([ids.length, refused.mock.calls]).toEqual([3, []]);
});
