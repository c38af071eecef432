/** Both ends of a real message channel: the page's side of a worker, and the worker's scope. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { afterAll } from 'vitest';
import type { WorkerLike, WorkerScope } from '../../src/web/rpc.ts';

export interface Pair {
  readonly worker: WorkerLike;
  readonly scope: WorkerScope;
  /** Lets the worker end with an error. */
  fail(message: string): void;
  readonly terminated: boolean;
}

export function pair(): Pair {
  const { port1, port2 } = new MessageChannel();
  afterAll(() => port1.close());
  const errors: ((event: Event) => void)[] = [];
  let terminated = false;
  const worker: WorkerLike = {
    postMessage: (message, transfer) => port1.postMessage(message, transfer as ArrayBuffer[]),
    addEventListener(type, listener) {
      if (type === 'message') (port1 as MessagePort).on('message', (data) => listener({ data } as MessageEvent));
      if (type === 'error') errors.push(listener);
    },
    terminate() {
      terminated = true;
      port1.close();
    },
  };
  const scope: WorkerScope = { postMessage: (message, transfer) => port2.postMessage(message, transfer as ArrayBuffer[]), onmessage: null };
  port2.on('message', (data) => scope.onmessage?.({ data } as MessageEvent));
  return {
    worker,
    scope,
    fail: (message) => errors.forEach((e) => e({ message } as ErrorEvent)),
    get terminated() {
      return terminated;
    },
  };
}
