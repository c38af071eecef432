/**
 * Lock between processes: a file that its holder touches every few seconds. This distinguishes a
 * working holder from one that died.
 */
import { open, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { mayBeOpen, whileOpen } from './replace.ts';

const BEAT_MS = 2000;
/** Missed beats after which a holder counts as dead. A machine that swaps may miss some. */
const MISSED_BEATS = 5;
const POLL_MS = 200;

/**
 * Maps a missing file to undefined. On Windows, a file that is open or being deleted gives a
 * permission error.
 */
const absent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT' && !mayBeOpen(error)) throw error;
};

/**
 * Returns a function that tells if the holder is dead: it has not touched the file for long, or is
 * a process of this machine that has ended. A file time may lie in the future (clock of another
 * machine, or a changed clock). Therefore the time is also watched: a working holder changes it.
 */
function watchHolder(path: string, staleMs: number): () => Promise<boolean> {
  let seen: number | undefined;
  let since = 0;
  return async () => {
    const found = await stat(path).catch(absent);
    if (!found) return false;
    if (found.mtimeMs !== seen) [seen, since] = [found.mtimeMs, performance.now()];
    if (Date.now() - found.mtimeMs > staleMs || performance.now() - since > staleMs) return true;
    const [pid, host] = ((await readFile(path, 'utf8').catch(absent)) ?? '').split(' ');
    if (host !== hostname()) return false;
    try {
      process.kill(Number(pid), 0);
      return false;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ESRCH';
    }
  };
}

/**
 * Takes the lock, waiting for its holder; resolves to the function that releases it. Between the
 * check that a lock is stale and its removal, another process may renew it. Then two processes hold
 * the lock for a while. So the guarded work must be harmless to do twice.
 * @param beatMs interval at which the holder touches the lock; the same for all processes
 * @throws signal.reason, or the file system's error if the lock cannot be written
 */
export async function lock(path: string, signal: AbortSignal, onWait: () => void, beatMs = BEAT_MS): Promise<() => Promise<void>> {
  const isStale = watchHolder(path, MISSED_BEATS * beatMs);
  const mine = `${process.pid} ${hostname()} ${crypto.randomUUID()}`;
  for (;;) {
    signal.throwIfAborted();
    try {
      const file = await whileOpen(() => open(path, 'wx')); // on Windows, a lock in deletion can neither be opened nor created
      try {
        await file.writeFile(mine);
      } catch (error) {
        await rm(path, { force: true }); // without a holder it would be waited for until it is stale
        throw error;
      } finally {
        await file.close();
      }
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (await isStale()) {
      // Rename before removal: if several processes find the lock stale, one rename succeeds.
      const aside = `${path}.${crypto.randomUUID()}`;
      await rename(path, aside).then(() => rm(aside, { force: true }), absent);
      continue;
    }
    onWait();
    await delay(Math.min(POLL_MS, beatMs), undefined, { signal }).catch(() => signal.throwIfAborted());
  }
  const beat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), beatMs);
  beat.unref();
  return async () => {
    clearInterval(beat);
    // If the file cannot be removed, the next process finds it stale.
    if ((await readFile(path, 'utf8').catch(() => '')) === mine) await whileOpen(() => rm(path, { force: true })).catch(() => {});
  };
}
