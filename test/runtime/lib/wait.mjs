// Time limits, and functions that wait. Limits are generous: a busy machine with two cores is slow,
// not wrong.
import { createServer } from 'node:net';

const isLong = process.env.QUANTLET_NO_TURNS || process.argv.some((argument) => argument.startsWith('--only='));
/** Limits of the whole matrix, and of a row. */
export const WHOLE_MS = isLong ? 240 * 60_000 : 50 * 60_000;
export const ROW_MS = 5 * 60_000;
/** Limit of one step of a row: a page to load, a child process to end. */
export const STEP_MS = 150_000;

/** Calls `look` repeatedly until it returns something. An error counts as nothing. */
export async function until(what, look, ms = STEP_MS) {
  let last;
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((r) => setTimeout(r, 50))) {
    try {
      const found = await look();
      if (found) return found;
      last = undefined;
    } catch (error) {
      last = error;
    }
  }
  throw new Error(`waited ${ms / 1000} s for ${what}${last ? `: ${last.message}` : ''}`, { cause: last });
}

/** The result of `promise`, or an error after `ms`, so that nothing blocks the rest. */
export async function within(ms, what, promise) {
  let timer;
  const late = new Promise(
    (_, reject) => (timer = setTimeout(() => reject(new Error(`${what} took longer than ${(ms / 1000).toFixed(0)} s`)), ms)),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A free port of 127.0.0.1. */
export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
