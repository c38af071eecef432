/**
 * Calls between a page and its worker, both sides. A request has an id, and its answer has the same
 * id.
 */
import { QuantletError, type QuantletErrorCode } from '../errors.ts';

/** The part of Worker that quantlet uses. */
export interface WorkerLike {
  postMessage(message: unknown, transfer?: unknown[]): void;
  addEventListener(type: string, listener: (event: Event) => void): void;
  terminate(): void;
}

/** First message of a worker, posted when its script runs. */
export const READY = 'quantlet worker ready';

interface Request {
  readonly id: number;
  readonly request: unknown;
}
interface Cancel {
  readonly cancel: number;
}
interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: PlainError;
}
/** Errors as plain data, because structured cloning drops their class and code. */
interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: QuantletErrorCode;
}

export interface Channel {
  /**
   * Sends a request and returns its answer. An abort is sent to the worker, which ends the call;
   * the promise rejects with signal.reason.
   */
  call<T>(request: unknown, options?: { transfer?: unknown[]; signal?: AbortSignal | undefined }): Promise<T>;
  /** Reason for the worker's loss; undefined while it runs. */
  readonly lost: QuantletError | undefined;
  close(): void;
}

export function openChannel(worker: WorkerLike): Channel {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>();
  let calls = 0;
  let lost: QuantletError | undefined;
  const lose = (message: string): void => {
    lost ??= new QuantletError('ERR_WORKER_LOST', message);
    for (const { reject } of waiting.values()) reject(lost);
    waiting.clear();
  };
  worker.addEventListener('message', (event) => {
    const { data } = event as MessageEvent<Answer>;
    const call = waiting.get(data.id);
    if (!call) return;
    waiting.delete(data.id);
    if (data.error) call.reject(revive(data.error));
    else call.resolve(data.value);
  });
  worker.addEventListener('error', (event) =>
    lose(`a worker of quantlet ended: ${(event as ErrorEvent).message || 'the browser does not say why'}; load the model again`),
  );
  worker.addEventListener('messageerror', () => lose('a worker of quantlet sent what cannot be read; load the model again'));
  return {
    get lost() {
      return lost;
    },
    async call<T>(
      request: unknown,
      { transfer = [], signal }: { transfer?: unknown[]; signal?: AbortSignal | undefined } = {},
    ): Promise<T> {
      if (lost) throw lost;
      signal?.throwIfAborted();
      const id = ++calls;
      const answer = new Promise<unknown>((resolve, reject) => waiting.set(id, { resolve, reject }));
      worker.postMessage({ id, request } satisfies Request, transfer);
      const cancel = (): void => worker.postMessage({ cancel: id } satisfies Cancel);
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        return (await answer) as T;
      } catch (error) {
        signal?.throwIfAborted();
        throw error;
      } finally {
        signal?.removeEventListener('abort', cancel);
      }
    },
    close() {
      lose('the worker was closed');
      worker.terminate();
    },
  };
}

const plain = (error: unknown): PlainError => {
  if (error instanceof QuantletError) return { name: error.name, message: error.message, code: error.code };
  return error instanceof Error ? { name: error.name, message: error.message } : { name: 'Error', message: String(error) };
};

const revive = ({ name, message, code }: PlainError): Error =>
  code ? new QuantletError(code, message) : Object.assign(new Error(message), { name });

/** The part of a worker's global scope that quantlet uses. */
export interface WorkerScope {
  postMessage(message: unknown, transfer?: unknown[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/**
 * Answers every request with the result of `handle`. Bytes that own their buffer are transferred,
 * not copied.
 */
export function answerCalls(scope: WorkerScope, handle: (request: never, signal: AbortSignal) => unknown): void {
  const running = new Map<number, AbortController>();
  scope.onmessage = async ({ data }: MessageEvent<Request | Cancel>) => {
    if ('cancel' in data) return running.get(data.cancel)?.abort();
    const { id, request } = data;
    const controller = new AbortController();
    running.set(id, controller);
    try {
      const value = await handle(request as never, controller.signal);
      const transfer =
        value instanceof Uint8Array && value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength
          ? [value.buffer]
          : [];
      scope.postMessage({ id, value } satisfies Answer, transfer);
    } catch (error) {
      scope.postMessage({ id, error: plain(error) } satisfies Answer);
    } finally {
      running.delete(id);
    }
  };
  scope.postMessage(READY);
}
