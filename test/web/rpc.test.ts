/**
 * Calls between a page and its worker, an executor and a pool that use them, and kernels supplied
 * by the page.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { computeWith } from '../../src/threads/serve.ts';
import { createRemote, type RemoteRequest } from '../../src/threads/remote.ts';
import { createThreadPool } from '../../src/threads/web.ts';
import { answerCalls, openChannel, type Channel } from '../../src/web/rpc.ts';
import { BUILDS } from '../../src/wasm/load.ts';
import { buildOf, compileWasm } from '../../src/web/wasm.ts';
import { root } from '../support.ts';
import { pair, type Pair } from './pair.ts';

describe('calls between a page and its worker', () => {
  it('answers in any order, transfers bytes, and keeps error codes', async () => {
    const { worker, scope } = pair();
    const channel = openChannel(worker);
    answerCalls(scope, async (request: number) => {
      if (request < 0) throw new QuantletError('ERR_OUT_OF_MEMORY', 'none left');
      await new Promise((resolve) => setTimeout(resolve, request));
      return new Uint8Array([request]);
    });
    const answers = await Promise.all([20, 1, 10].map((n) => channel.call<Uint8Array>(n)));
    expect(answers.map((a) => a[0])).toEqual([20, 1, 10]);
    const error = await channel.call(-1).catch((e: QuantletError) => e);
    expect(error).toBeInstanceOf(QuantletError);
    expect((error as QuantletError).code).toBe('ERR_OUT_OF_MEMORY');
    channel.close();
  });
  it('tells the worker of an abort and rejects with its reason', async () => {
    const { worker, scope } = pair();
    const channel = openChannel(worker);
    answerCalls(
      scope,
      (_: number, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    const controller = new AbortController();
    const call = channel.call(1, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('stop')), 5);
    await expect(call).rejects.toThrow('stop');
    channel.close();
  });
  it('rejects open and later calls when the worker is lost', async () => {
    const { worker, fail } = pair();
    const channel = openChannel(worker);
    const call = channel.call(1);
    fail('out of memory');
    await expect(call).rejects.toMatchObject({ code: 'ERR_WORKER_LOST' });
    await expect(channel.call(2)).rejects.toMatchObject({ code: 'ERR_WORKER_LOST' });
  });
});

const bytesOf = (build: string) => readFileSync(new URL(`dist/wasm/${build}.wasm`, root));

describe('an executor in one worker', () => {
  it('a step aborted before it is sent does not write its inputs', async () => {
    const { worker, scope } = pair();
    const seen: RemoteRequest[] = [];
    answerCalls(scope, (request: RemoteRequest) => void seen.push(request));
    const executor = await createRemote(openChannel(worker), new WebAssembly.Module(bytesOf('simd')), [65536]);
    const step = { passes: [{ plan: 0, from: 0, to: 1 }], nTokens: 1, nOutputs: 1 };
    const bytes = Uint8Array.of(1, 2, 3);
    await executor.write(64, bytes);
    await expect(executor.run(step, AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop');
    await executor.run(step);
    expect(seen.slice(1)).toEqual([{ writes: [{ at: 64, bytes }], step }]);
    await executor.dispose();
  });
});

describe('a pool of workers', () => {
  const module = new WebAssembly.Module(bytesOf('simd-threads'));
  const compute = computeWith(module, new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }));
  /** Starts workers that answer their first requests as the list says. */
  const starting = (...answers: ((request: { role?: string }) => unknown)[]): { pairs: Pair[]; start: () => Promise<Channel> } => {
    const pairs: Pair[] = [];
    const start = async (): Promise<Channel> => {
      const one = pair();
      answerCalls(one.scope, answers[pairs.length] ?? (() => undefined));
      pairs.push(one);
      return openChannel(one.worker);
    };
    return { pairs, start };
  };

  it('a worker that fails to start is ended, the others serve', async () => {
    const { pairs, start } = starting(
      () => undefined,
      () => {
        throw new Error('no memory');
      },
    );
    const pool = await createThreadPool(start, compute, 2);
    expect([pool.nth, ...pairs.map((p) => p.terminated)]).toEqual([1, false, true]);
    await pool.dispose();
  });

  it('without Atomics.waitAsync a lost watcher is replaced', async () => {
    const { waitAsync } = Atomics;
    Reflect.deleteProperty(Atomics, 'waitAsync');
    try {
      const { pairs, start } = starting();
      const pool = await createThreadPool(start, compute, 1);
      await pool.changed!(0, 0);
      pairs[1].fail('out of memory');
      await pool.changed!(0, 0);
      expect(pairs).toHaveLength(3);
      await pool.dispose();
    } finally {
      Object.assign(Atomics, { waitAsync });
    }
  });
});

describe('kernels supplied by a page', () => {
  it('say which build they are', async () => {
    for (const build of BUILDS) expect(buildOf(await compileWasm(bytesOf(build)))).toBe(build);
    expect(() => buildOf(new WebAssembly.Module(bytesOf('simd')), 'relaxed')).toThrow(/"simd".*"relaxed"/);
  });
  it('must be ours', async () => {
    const empty = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
    expect(() => buildOf(new WebAssembly.Module(empty))).toThrow(QuantletError);
    await expect(compileWasm(new Uint8Array([1, 2, 3]))).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });
});
