/**
 * Runs commands in this process, which saves the second that a process takes, and returns their
 * output.
 */
import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { vi } from 'vitest';
import type { Command } from '../../src/cli/command.ts';

export type Args = readonly (string | number)[];

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Captures what is written to stdout and stderr during some work. */
export async function listening<T>(work: (said: () => Omit<Said, 'code'>) => Promise<T>): Promise<T> {
  let stdout = '';
  let stderr = '';
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => ((stdout += String(chunk)), true)),
    vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => ((stderr += String(chunk)), true)),
  ];
  try {
    return await work(() => ({ stdout, stderr }));
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

export const never = new AbortController().signal;

/** @throws errors that cli.ts would turn into a line on stderr and an exit code */
export const invoke = (c: Command, args: Args): Promise<Said> =>
  listening(async (said) => {
    const code = await c.run(args.map(String), never);
    return { code, ...said() };
  });

/**
 * Returns what a program writes. Tests read pipes by `cat`, because Node would block one of its
 * threads on a pipe, which the writer in this process may need.
 */
export async function written(command: string, ...args: string[]): Promise<Buffer> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const pieces: Uint8Array[] = [];
  for await (const piece of child.stdout) pieces.push(piece as Uint8Array);
  return Buffer.concat(pieces);
}

/** Listens at a path. The first connection's bytes are there once it has ended. */
export async function socketAt(path: string): Promise<{ readonly server: Server; readonly received: Promise<Buffer> }> {
  const server = createServer();
  const received = new Promise<Buffer>((resolve) => server.once('connection', (socket) => resolve(buffer(socket))));
  await new Promise<void>((resolve, reject) => void server.once('error', reject).listen(path, resolve));
  return { server, received };
}
