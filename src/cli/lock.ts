/** A lock between processes: a file that its holder touches every few seconds, so that one that died is told from one that works. */
import { randomUUID } from 'node:crypto';
import { open, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const BEAT_MS = 2000;
/** Five beats: a machine that swaps may miss some. */
const STALE_MS = 10_000;
const POLL_MS = 200;

const absent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error;
};

/** Whether the holder is gone: untouched for long, or a process of this machine that no longer runs. */
async function isStale(path: string): Promise<boolean> {
  const found = await stat(path).catch(absent);
  if (!found) return false;
  if (Date.now() - found.mtimeMs > STALE_MS) return true;
  const [pid, host] = ((await readFile(path, 'utf8').catch(absent)) ?? '').split(' ');
  if (host !== hostname()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/**
 * Takes the lock, waiting for whoever has it; resolves to what gives it back. Between finding a lock stale and taking it away another
 * process may have renewed it: two could then hold it for a while, so what it guards must be harmless to do twice.
 * @throws signal.reason, or the file system's error where the lock cannot be written
 */
export async function lock(path: string, signal: AbortSignal, onWait: () => void): Promise<() => Promise<void>> {
  const mine = `${process.pid} ${hostname()} ${randomUUID()}`;
  for (;;) {
    signal.throwIfAborted();
    try {
      const file = await open(path, 'wx');
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
    if (await isStale(path)) {
      // Renamed first: of several processes that find it stale, one succeeds.
      const aside = `${path}.${randomUUID()}`;
      await rename(path, aside).then(() => rm(aside, { force: true }), absent);
      continue;
    }
    onWait();
    await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
  const beat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), BEAT_MS);
  beat.unref();
  return async () => {
    clearInterval(beat);
    if ((await readFile(path, 'utf8').catch(() => '')) === mine) await rm(path, { force: true });
  };
}
