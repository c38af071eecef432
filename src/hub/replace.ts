/** Renaming over a file that somebody may have open: Windows refuses that, other systems do not. */
import { rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const TRIES = 6;
const FIRST_WAIT_MS = 20;

const BUSY: ReadonlySet<unknown> = new Set(['EPERM', 'EACCES', 'EBUSY']);
/** Whether an error is one that Windows gives for a file that is open elsewhere. Files that may not be written give the same. */
export const mayBeOpen = (error: unknown): boolean => BUSY.has((error as NodeJS.ErrnoException).code);

/** Repeats what an open file may keep from succeeding: readers and virus scanners close it soon. @throws the last error */
export async function whileOpen<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (tries === TRIES || !mayBeOpen(error)) throw error;
      await delay(FIRST_WAIT_MS * 2 ** tries);
    }
  }
}

/** rename() that waits a while for a reader of `to`. @throws the file system's error */
export const replace = (from: string, to: string): Promise<void> => whileOpen(() => rename(from, to));
