/** Browsers' threads: Web Workers over shared memories. */
import type { Channel } from '../web/rpc.ts';
import type { ThreadInit, WatchInit } from '../worker/web.ts';
import type { Compute, ServeTask } from './serve.ts';
import type { ThreadPool } from './pool.ts';

/**
 * Starts up to nth threads, at least one. A lost worker is replaced when the next task is started
 * on it.
 */
export async function createThreadPool(start: () => Promise<Channel>, compute: Compute, nth: number): Promise<ThreadPool> {
  /** Starts a worker and gives it its role. A worker that cannot take the role is ended. */
  const hire = async (init: ThreadInit | WatchInit): Promise<Channel> => {
    const channel = await start();
    try {
      await channel.call(init);
      return channel;
    } catch (error) {
      channel.close();
      throw error;
    }
  };
  const thread: ThreadInit = { role: 'thread', ...compute };
  const hired = await Promise.allSettled(Array.from({ length: nth }, () => hire(thread)));
  const workers = hired.flatMap((h) => (h.status === 'fulfilled' ? [h.value] : []));
  const refused = hired.find((h) => h.status === 'rejected');
  if (workers.length === 0) throw (refused as PromiseRejectedResult).reason;

  let watcher: Channel | undefined;
  const changed = async (at: number, value: number): Promise<void> => {
    if (!watcher || watcher.lost) watcher = await hire({ role: 'watch', memory: compute.memories[0] });
    await watcher.call({ at, value });
  };
  return {
    nth: workers.length,
    async start(task: ServeTask) {
      if (workers[task.ith].lost) workers[task.ith] = await hire(thread);
      await workers[task.ith].call(task);
    },
    // Firefox before 145 and Safari before 16.4 have no Atomics.waitAsync.
    ...(typeof Atomics.waitAsync !== 'function' && { changed }),
    async dispose() {
      watcher?.close();
      for (const worker of workers) worker.close();
    },
  };
}
