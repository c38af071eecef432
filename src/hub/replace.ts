/** Renames over files that may be open in another program: Windows refuses that for a while. */
import { rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const TRIES = 6;
const FIRST_WAIT_MS = 20;

const BUSY: ReadonlySet<unknown> = new Set(['EPERM', 'EACCES', 'EBUSY']);
/**
 * True for errors that Windows gives for a file that is open elsewhere. A file without write
 * permission gives the same errors.
 */
export const mayBeOpen = (error: unknown): boolean => BUSY.has((error as NodeJS.ErrnoException).code);

/**
 * Repeats an action that an open file may prevent: readers and virus scanners close it soon.
 * @throws the last error
 */
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

/**
 * Like rename(), but waits a while for readers of `to`.
 * @throws the file system's error
 */
export const replace = (from: string, to: string): Promise<void> => whileOpen(() => rename(from, to));
