/**
 * Weights that threads read and pack: the same model as from bytes; files that change, aborts, lost
 * workers.
 */
import diagnostics from 'node:diagnostics_channel';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { loadModel, type Model } from 'quantlet';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { SYNC_SIZE } from '../../src/graph/layout.ts';
import { platform } from '../../src/entry/node-platform.ts';
import type { Executor } from '../../src/threads/executor.ts';
import { PIECE, PIECE_SIZE } from '../../src/threads/loading.ts';
import { computeWith } from '../../src/threads/serve.ts';
import { createShared } from '../../src/threads/shared.ts';
import { createAllocator } from '../../src/wasm/allocator.ts';
import { ARENA_BASE, createMemory } from '../../src/wasm/memory.ts';
import { failure, llamaModel, root, temporaryFolder } from '../support.ts';

const SHIPPED = fileURLToPath(new URL('models/tiny-stories-q4_0.gguf', root));

const folder = temporaryFolder();
const build = 'simd-threads';
const greedy = { temperature: 0, maxTokens: 30, ignoreEos: true } as const;

const workers: Worker[] = [];
const collect = (message: unknown): void => void workers.push((message as { worker: Worker }).worker);
diagnostics.subscribe('worker_threads', collect);
afterEach(() => void workers.splice(0));
afterAll(() => diagnostics.unsubscribe('worker_threads', collect));

const ids = async (model: Model): Promise<readonly number[]> => (await model.generate('the cat', greedy).result()).ids;

it.each([1, 2, 3, 5])('%i threads read the same as the host: the same tokens and fingerprint', async (threads) => {
  const options = { build, threads, warmUp: false } as const;
  const byThreads = await loadModel(llamaModel, options);
  const byHost = await loadModel(readFileSync(llamaModel), options);
  try {
    expect(await ids(byThreads)).toEqual(await ids(byHost));
    expect(byThreads.internals.engine.fingerprint).toBe(byHost.internals.engine.fingerprint);
    expect((await byHost.loadState(await byThreads.saveState())).length).toBeGreaterThan(greedy.maxTokens);
  } finally {
    await byThreads.dispose();
    await byHost.dispose();
  }
});

it('a scale that is NaN is found by the thread that packs it', async () => {
  const path = join(folder, 'broken.gguf');
  // The last quarter of the file gives NaN wherever an f16 is read.
  const damaged = readFileSync(SHIPPED).fill(0x7e, Math.floor(statSync(SHIPPED).size * 0.75));
  writeFileSync(path, damaged);
  const byThreads = await failure(loadModel(path, { build, warmUp: false }));
  const byHost = await failure(loadModel(damaged, { build, warmUp: false }));
  expect([byThreads.code, byThreads.message]).toEqual(['ERR_GGUF_INVALID', byHost.message]);
});

it('progress grows to all of the weights, and an error thrown by onProgress ends loading', async () => {
  const seen: { loaded: number; total: number }[] = [];
  const model = await loadModel(llamaModel, { build, warmUp: false, onProgress: (p) => seen.push(p) });
  await model.dispose();
  expect(seen.at(-1)!.loaded).toBe(seen.at(-1)!.total);
  expect(seen.every((p, i) => i === 0 || p.loaded > seen[i - 1].loaded)).toBe(true);
  const reason = new Error('enough');
  const load = loadModel(llamaModel, {
    build,
    onProgress() {
      throw reason;
    },
  });
  expect((await failure(load)).error).toBe(reason);
});

describe('pieces that go wrong', () => {
  const path = join(folder, 'pieces.bin');
  const BYTES = 1 << 16;
  writeFileSync(path, new Uint8Array(BYTES).fill(7));
  const { ino, mtimeMs } = statSync(path);
  const identity = { path, ino, byteLength: BYTES, mtimeMs };

  /**
   * An executor with memory for one piece, and enough pieces to read the file into it again and
   * again.
   */
  async function withExecutor(
    use: (executor: Executor, pieces: (count: number, offset?: number) => Float64Array<SharedArrayBuffer>, at: number) => Promise<void>,
  ): Promise<void> {
    const arena = createAllocator(ARENA_BASE);
    arena.take(SYNC_SIZE);
    const at = arena.take(BYTES);
    const memory = createMemory(arena.end, true);
    const module = await platform.module(build);
    const compute = computeWith(module, memory);
    const executor = createShared(compute, platform.spawnThreads!(2).attach(compute), 2);
    const pieces = (count: number, offset = 0): Float64Array<SharedArrayBuffer> => {
      const numbers = new Float64Array(new SharedArrayBuffer(8 * PIECE_SIZE * count));
      for (let i = 0; i < count; i++) {
        const piece = { file: 0, offset, bytes: BYTES, head: -1, at, type: -1 };
        for (const [field, value] of Object.entries(piece)) numbers[i * PIECE_SIZE + PIECE[field as keyof typeof piece]] = value;
      }
      return numbers;
    };
    try {
      await use(executor, pieces, at);
    } finally {
      await executor.dispose();
    }
  }
  const work = { files: [identity] };
  const MANY = 1_000_000;

  it('a file that was replaced, cut, or is gone', () =>
    withExecutor(async ({ load, read }, pieces, at) => {
      const wrong = async (files: (typeof work)['files'], offset = 0): Promise<string> =>
        (await failure(load!({ ...work, files, pieces: pieces(4, offset) }, () => {}))).code;
      expect(await wrong([{ ...identity, ino: identity.ino + 1 }])).toBe('ERR_SOURCE');
      expect(await wrong([{ ...identity, byteLength: BYTES + 1 }])).toBe('ERR_SOURCE');
      expect(await wrong([{ ...identity, mtimeMs: mtimeMs - 1 }])).toBe('ERR_SOURCE');
      expect(await wrong([{ ...identity, path: `${path}.gone` }])).toBe('ERR_SOURCE');
      expect(await wrong([identity], 1)).toBe('ERR_GGUF_TRUNCATED');
      let done = 0;
      await load!({ ...work, pieces: pieces(9) }, (n) => (done = n));
      expect(done).toBe(9);
      expect([...(await read(at, BYTES))].every((byte) => byte === 7)).toBe(true);
    }));

  it('an abort ends it with its reason, and the next load works', () =>
    withExecutor(async ({ load }, pieces) => {
      const controller = new AbortController();
      const reason = new Error('changed my mind');
      const onDone = (n: number): void => (n > 0 ? controller.abort(reason) : undefined);
      expect((await failure(load!({ ...work, pieces: pieces(MANY) }, onDone, controller.signal))).error).toBe(reason);
      await load!({ ...work, pieces: pieces(3) }, () => {});
    }));

  it('a worker that dies ends it with ERR_WORKER_LOST, and the next load works', () =>
    withExecutor(async ({ load }, pieces) => {
      let blow: Promise<number> | undefined;
      const onDone = (n: number): void => {
        if (n > 0) blow ??= workers[0].terminate();
      };
      expect((await failure(load!({ ...work, pieces: pieces(MANY) }, onDone))).code).toBe('ERR_WORKER_LOST');
      await blow;
      await load!({ ...work, pieces: pieces(3) }, () => {});
    }));
});
