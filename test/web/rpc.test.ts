import { readFileSync } from 'node:fs';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { answerCalls, openChannel, type WorkerLike, type WorkerScope } from '../../src/web/rpc.ts';
import { BUILDS } from '../../src/wasm/load.ts';
import { buildOf, compileWasm } from '../../src/web/wasm.ts';
import { root } from '../support.ts';

/** Both ends of a real message channel: a page's view of its worker, and the worker's own scope. */
function pair(): { worker: WorkerLike; scope: WorkerScope; fail: (message: string) => void } {
  const { port1, port2 } = new MessageChannel();
  afterAll(() => port1.close());
  const errors: ((event: Event) => void)[] = [];
  const worker: WorkerLike = {
    postMessage: (message, transfer) => port1.postMessage(message, transfer as ArrayBuffer[]),
    addEventListener(type, listener) {
      if (type === 'message') (port1 as MessagePort).on('message', (data) => listener({ data } as MessageEvent));
      if (type === 'error') errors.push(listener);
    },
    terminate: () => port1.close(),
  };
  const scope: WorkerScope = { postMessage: (message, transfer) => port2.postMessage(message, transfer as ArrayBuffer[]), onmessage: null };
  port2.on('message', (data) => scope.onmessage?.({ data } as MessageEvent));
  return { worker, scope, fail: (message) => errors.forEach((e) => e({ message } as ErrorEvent)) };
}

describe('calls between a page and its worker', () => {
  it('answers in any order, hands bytes over, and keeps error codes', async () => {
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
    answerCalls(scope, (_: number, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))));
    const controller = new AbortController();
    const call = channel.call(1, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('stop')), 5);
    await expect(call).rejects.toThrow('stop');
    channel.close();
  });
  it('rejects everything open, and all that follows, when the worker is lost', async () => {
    const { worker, fail } = pair();
    const channel = openChannel(worker);
    const call = channel.call(1);
    fail('out of memory');
    await expect(call).rejects.toMatchObject({ code: 'ERR_WORKER_LOST' });
    await expect(channel.call(2)).rejects.toMatchObject({ code: 'ERR_WORKER_LOST' });
  });
});

describe('kernels that a page brings', () => {
  const bytesOf = (build: string) => readFileSync(new URL(`dist/wasm/${build}.wasm`, root));
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
