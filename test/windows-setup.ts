/**
 * Setup of every test file on Windows: checks its tests against the list of those that cannot pass
 * there.
 */
import { Readable } from 'node:stream';
import { beforeEach } from 'vitest';
import { expectOnWindows, notOnWindows } from './not-on-windows.ts';

// Vitest leaves its processes a pipe that never ends as standard input. On Windows it looks like a
// pipe of the shell, which commands without a prompt read to its end.
Object.defineProperty(process, 'stdin', { get: () => Readable.from([]), configurable: true });

beforeEach((context) => expectOnWindows(notOnWindows, context));
