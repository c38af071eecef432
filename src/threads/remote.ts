/**
 * Executor without shared memory: one worker has the memories and the kernels and computes. This
 * thread sends it messages and stays responsive.
 */
import { QuantletError } from '../errors.ts';
import type { Channel } from '../web/rpc.ts';
import { disposedError, type Executor, type ByteRange, type Step } from './executor.ts';
import { makeKnown } from './where.ts';

export interface RemoteInit {
  readonly role: 'remote';
  readonly module: WebAssembly.Module;
  /** Bytes of each memory. */
  readonly memoryBytes: readonly number[];
}

/**
 * One message: first the writes, then the step, then the read (by default the step's own `reads`).
 */
export interface RemoteRequest {
  readonly writes: readonly { readonly at: number; readonly bytes: Uint8Array }[];
  readonly step?: Step;
  readonly reads?: ByteRange;
}

/**
 * Writes up to this size go with the next request. Larger ones (weights) are sent at once, and the
 * writer waits until they have arrived.
 */
const SMALL_WRITE = 64 * 1024;

/**
 * Starts the worker's memories.
 * @throws ERR_OUT_OF_MEMORY if the worker cannot make them
 */
export async function createRemote(channel: Channel, module: WebAssembly.Module, memoryBytes: readonly number[]): Promise<Executor> {
  await channel.call({ role: 'remote', module, memoryBytes } satisfies RemoteInit);
  let writes: { at: number; bytes: Uint8Array }[] = [];
  /** Bytes that came with the last step's answer. */
  let brought: (ByteRange & { bytes: Uint8Array }) | undefined;
  let disposed = false;
  let waiting = 0;

  const send = async (request: Omit<RemoteRequest, 'writes'>, signal?: AbortSignal): Promise<Uint8Array | undefined> => {
    if (disposed) throw disposedError();
    signal?.throwIfAborted(); // before the writes are taken, so that they go with the next request
    const taken = writes;
    writes = [];
    waiting++;
    try {
      return await channel.call({ writes: taken, ...request } satisfies RemoteRequest, {
        transfer: taken.map((w) => w.bytes.buffer as ArrayBuffer),
        signal,
      });
    } catch (error) {
      if (disposed) throw disposedError();
      signal?.throwIfAborted();
      if (error instanceof QuantletError) throw error;
      throw new QuantletError(
        'ERR_WORKER_LOST',
        `the worker failed in the middle of a step: ${error instanceof Error ? error.message : String(error)}; the next step can run again, but the results of this one are lost`,
        { cause: error },
      );
    } finally {
      waiting--;
    }
  };

  return makeKnown({
    threads: 1,
    where: () => `${waiting} requests to the worker are unanswered`,
    write(at, bytes) {
      writes.push({ at, bytes: bytes.slice() });
      if (bytes.length > SMALL_WRITE) return send({}).then(() => {});
    },
    read(at, length) {
      if (brought?.at === at && brought.length === length) return brought.bytes;
      return send({ reads: { at, length } }) as Promise<Uint8Array>;
    },
    view: () => undefined,
    async run(step, signal) {
      brought = undefined;
      const { reads } = step;
      const bytes = await send({ step }, signal);
      if (reads && bytes) brought = { ...reads, bytes };
    },
    rest() {},
    async dispose() {
      disposed = true;
      channel.close();
    },
  });
}
