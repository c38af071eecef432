/**
 * Outputs that are not regular files: devices, pipes, sockets and open descriptors. They take bytes
 * in order and are not replaced.
 */
import { constants, fstatSync, openSync, write } from 'node:fs';
import { open, readlink, realpath, stat } from 'node:fs/promises';
import { connect, Socket } from 'node:net';
import { basename, dirname, join, resolve } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

/**
 * Interval for checking if a pipe has a reader. A blocking open would occupy a thread of Node until
 * the process is killed.
 */
const POLL_MS = 50;

/** Takes bytes in order. */
interface Stream {
  push(data: Uint8Array): Promise<void>;
  /** Resolves after all bytes are delivered. */
  end(): Promise<void>;
  close(): Promise<void>;
}

export interface SpecialFile {
  write(data: Uint8Array, position: number): Promise<void>;
  /**
   * Writes pieces that still wait for missing bytes, with zeros for the gaps, as in a sparse file.
   */
  finish(): Promise<void>;
  close(): Promise<void>;
}

/** True for a path that Windows does not normalise (`\\?\...`). */
export const isLiteral = (path: string): boolean => /^[\\/]{2}\?[\\/]/.test(path);

/**
 * The device that Windows sees in a name in any folder, such as NUL. Node would instead create a
 * file of that name, which Explorer cannot delete.
 * @param platform replaced by tests
 */
export function deviceName(path: string, platform: string = process.platform): string | undefined {
  if (platform !== 'win32' || isLiteral(path)) return undefined;
  if (/^[\\/]{2}\.[\\/]/.test(path)) return path;
  const [, name] = /^(nul|con|conin\$|conout\$|prn|aux|(?:com|lpt)[1-9¹²³])[ .]*:?$/i.exec(basename(path.replaceAll('\\', '/'))) ?? [];
  return name === undefined ? undefined : `\\\\.\\${name}`;
}

/** Longest chain of links, as in Linux. */
const LINKS = 40;

/**
 * The descriptor of an open file that a path names: /dev/stdout, /dev/fd/3, or a link to one.
 * Opening it by name would truncate the file.
 */
export async function descriptorOf(path: string): Promise<number | undefined> {
  if (process.platform === 'win32') return undefined;
  let at = resolve(path);
  for (let links = 0; links < LINKS; links++) {
    const folder = await realpath(dirname(at)).catch(() => undefined);
    if (folder === undefined) return undefined;
    at = join(folder, basename(at));
    const [, number] = /^\/(?:dev|proc\/(?:self|\d+)(?:\/task\/\d+)?)\/fd\/(\d+)$/.exec(at) ?? [];
    if (number !== undefined && (folder === '/dev/fd' || folder.startsWith(`/proc/${process.pid}/`))) return Number(number);
    const link = await readlink(at).catch(() => undefined);
    if (link === undefined) return undefined;
    at = resolve(folder, link);
  }
  return undefined;
}

const writeTo = promisify(write);

function openDescriptor(fd: number): Stream {
  const info = fstatSync(fd);
  const standard: Writable | undefined = fd === 1 ? process.stdout : fd === 2 ? process.stderr : undefined;
  if (standard && !info.isFile())
    return {
      push: (data) => new Promise((done, failed) => void standard.write(data, (error) => (error ? failed(error) : done()))),
      end: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
  if (info.isFIFO() || info.isSocket()) return streamOf(new Socket({ fd, readable: false, writable: true }));
  return {
    async push(data) {
      for (let done = 0; done < data.length;) done += (await writeTo(fd, data, done, data.length - done, null)).bytesWritten;
    },
    end: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

async function openDevice(path: string): Promise<Stream> {
  const file = await open(path, 'w');
  return {
    async push(data) {
      for (let done = 0; done < data.length;) done += (await file.write(data, done, data.length - done, null)).bytesWritten;
    },
    end: () => file.close(),
    close: () => file.close().catch(() => undefined),
  };
}

function streamOf(socket: Socket): Stream {
  let failure: Error | undefined;
  socket.on('error', (error) => (failure = error));
  const settled = (start: (done: (error?: Error | null) => void) => void): Promise<void> =>
    new Promise((resolve, reject) => {
      if (failure) return reject(failure);
      socket.once('error', reject);
      start((error) => {
        socket.off('error', reject);
        if (error) reject(error);
        else resolve();
      });
    });
  return {
    push: (data) => settled((done) => socket.write(data, done)),
    end: () => settled((done) => socket.end(done)),
    close: () => Promise.resolve(void socket.destroy()),
  };
}

/** Waits for a reader, like a shell. */
async function openPipe(path: string, signal: AbortSignal | undefined): Promise<Stream> {
  for (;;) {
    signal?.throwIfAborted();
    try {
      const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
      return streamOf(new Socket({ fd, readable: false, writable: true }));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error;
      await delay(POLL_MS, undefined, { signal });
    }
  }
}

async function openSocket(path: string): Promise<Stream> {
  const socket = connect(path);
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  return streamOf(socket);
}

/** @param name a path or a file descriptor */
async function openStream(name: string | number, signal: AbortSignal | undefined): Promise<Stream> {
  if (typeof name === 'number') return openDescriptor(name);
  const info = process.platform === 'win32' ? undefined : await stat(name);
  if (info?.isFIFO()) return openPipe(name, signal);
  return info?.isSocket() ? openSocket(name) : openDevice(name);
}

/** @throws errors of Node, or signal.reason */
export async function openSpecial(name: string | number, signal?: AbortSignal): Promise<SpecialFile> {
  const stream = await openStream(name, signal);
  /** Pieces that arrived early, by position. */
  const waiting = new Map<number, Uint8Array>();
  let next = 0;
  let last = Promise.resolve();
  const push = (data: Uint8Array): Promise<void> => {
    next += data.length;
    return (last = last.then(() => stream.push(data)));
  };
  return {
    async write(data, position) {
      if (position !== next) return void waiting.set(position, data.slice());
      let done = push(data);
      for (let piece = waiting.get(next); piece; piece = waiting.get(next)) {
        waiting.delete(next);
        done = push(piece);
      }
      await done;
    },
    async finish() {
      for (const [position, piece] of [...waiting].sort(([a], [b]) => a - b)) {
        await push(new Uint8Array(position - next));
        await push(piece);
      }
      await last;
      await stream.end();
    },
    close: stream.close,
  };
}
