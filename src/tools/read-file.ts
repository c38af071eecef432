/** Reads whole files, pipes and standard input. A signal ends the wait for a writer. */
import { constants, openSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';

/** Reads a stream to its end. */
export async function readAll(stream: Readable, signal: AbortSignal): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of addAbortSignal(signal, stream)) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

/**
 * Reads a file. A named pipe is waited for by the event loop: readFile() would block a thread of
 * Node, and a process does not end as long as one is blocked.
 */
export async function readWhole(path: string, signal: AbortSignal): Promise<Uint8Array> {
  if (!(await stat(path)).isFIFO()) return readFile(path);
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return readAll(new Socket({ fd, readable: true, writable: false }), signal);
}
