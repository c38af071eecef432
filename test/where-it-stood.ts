/**
 * When vitest's time limit ends a test, the error also reports where every executor of the process
 * stood.
 */
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
