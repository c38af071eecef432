/** A test that waits for ever is ended by vitest's limit: its error then says where every executor of the process stood. */
import { beforeEach } from 'vitest';
import { whereAllStand } from '../src/threads/where.ts';

beforeEach(({ onTestFailed }) => {
  onTestFailed(({ task }) => {
    const error = task.result?.errors?.find(({ message }) => /timed out/.test(message));
    const stood = error && whereAllStand();
    if (!error || !stood || stood.length === 0) return;
    error.message += `\nExecutors stood here:\n${stood.join('\n')}`;
    error.stack = `${error.message}\n${error.stack ?? ''}`;
  });
});
