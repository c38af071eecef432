/**
 * Setup of every test file on Windows: checks its tests against the list of those that cannot pass
 * there.
 */
import { beforeEach } from 'vitest';
import { expectOnWindows, notOnWindows } from './not-on-windows.ts';

beforeEach((context) => expectOnWindows(notOnWindows, context));
