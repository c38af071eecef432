/** A lock between processes: a file that its holder touches every few seconds, so that one that died is told from one that works. */
import { open, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { mayBeOpen, whileOpen } from './replace.ts';

const BEAT_MS = 2000;
/** Missed beats after which a holder counts as gone: a machine that swaps may miss some. */
const MISSED_BEATS = 5;
const POLL_MS = 200;

/** A file that is not there; on Windows, one that is open or being deleted looks like one that may not be read. */
const absent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT' && !mayBeOpen(error)) throw error;
};

/**
 * Tells whether the holder is gone: untouched for long, or a process of this machine that no longer runs. By the file's time alone nothing
 * can be told where that lies in the future (another machine's clock, or a changed one): a holder that is at work moves it, so it is watched.
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
 * Takes the lock, waiting for whoever has it; resolves to what gives it back. Between finding a lock stale and taking it away another
 * process may have renewed it: two could then hold it for a while, so what it guards must be harmless to do twice.
 * @param beatMs how often the holder touches it: the same for all that may want it
 * @throws signal.reason, or the file system's error where the lock cannot be written
 */
export async function lock(path: string, signal: AbortSignal, onWait: () => void, beatMs = BEAT_MS): Promise<() => Promise<void>> {
  const isStale = watchHolder(path, MISSED_BEATS * beatMs);
  const mine = `${process.pid} ${hostname()} ${crypto.randomUUID()}`;
  for (;;) {
    signal.throwIfAborted();
    try {
      const file = await whileOpen(() => open(path, 'wx')); // on Windows a lock that is being deleted is neither there nor gone
      try {
        await file.writeFile(mine);
      } catch (error) {
        await rm(path, { force: true }); // a lock that nobody holds would be waited for
        throw error;
      } finally {
        await file.close();
      }
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (await isStale()) {
      // Renamed first: of several processes that find it stale, one succeeds.
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
    // One that cannot be removed is found stale by the next.
    if ((await readFile(path, 'utf8').catch(() => '')) === mine) await whileOpen(() => rm(path, { force: true })).catch(() => {});
  };
}
