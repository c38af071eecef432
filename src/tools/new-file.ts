/**
 * Outputs of the tools and of all commands.
 *
 * A file is written under a temporary name in the same folder and renamed after it is complete. A
 * failure or abort removes it and leaves the old file unchanged. Links are followed. Devices, pipes
 * and sockets are written directly (special-file.ts).
 */
import { rmSync, type Stats } from 'node:fs';
import { access, constants, open, readlink, realpath, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, posix, win32 } from 'node:path';
import { QuantletError } from '../errors.ts';
import { whyNotOnWindows } from '../hub/names.ts';
import { replace } from '../hub/replace.ts';
import { descriptorOf, deviceName, isLiteral, openSpecial } from './special-file.ts';

/** Writes bytes at a position. Several writes may run at the same time. */
export type WriteAt = (data: Uint8Array, position: number) => Promise<void>;

export interface Output {
  /** @throws ERR_IO, for example on a full disk */
  readonly write: WriteAt;
  /**
   * Completes the output: a file is renamed to its final name.
   * @throws ERR_IO
   */
  finish(): Promise<void>;
  /** Closes the output. An unfinished file is deleted. */
  close(): Promise<void>;
}

/** Limit of a file name's bytes in most file systems. */
const MOST_BYTES = 255;

/**
 * Name of the file that an output is written to until it is complete: in the same folder, so that
 * renaming is atomic.
 */
export function temporaryName(output: string): string {
  const ending = `.${process.pid}.part`;
  let name = basename(output);
  while (Buffer.byteLength(name) > MOST_BYTES - ending.length) name = [...name].slice(0, -1).join('');
  return join(dirname(output), `${name}${ending}`);
}

/** Unfinished files, deleted if the process exits early (a second Ctrl-C). */
const unfinished = new Set<string>();
const removeUnfinished = (): void => {
  for (const path of unfinished) rmSync(path, { force: true });
};

function addUnfinished(path: string): void {
  if (!process.listeners('exit').includes(removeUnfinished)) process.on('exit', removeUnfinished);
  unfinished.add(path);
}

const failed =
  (what: string) =>
  (error: unknown): never => {
    const { code, message } = error as NodeJS.ErrnoException;
    const hint = code === 'ENOSPC' ? ': the disk is full; free some space or write elsewhere' : '';
    throw new QuantletError('ERR_IO', `${what} (${message})${hint}`, { cause: error });
  };
const notOpened = (output: string): ((error: unknown) => never) => failed(`cannot write the output: opening ${output} failed`);
const notWritten = (output: string): ((error: unknown) => never) => failed(`writing ${output} failed`);

/**
 * Destination of an output. `path` is a file to be replaced or made, and `old` describes it if it
 * exists. `special` is a device by its name or an open file by its descriptor.
 */
type Target =
  | { readonly special: string | number; readonly path?: undefined; readonly old?: undefined }
  | { readonly special?: undefined; readonly path: string; readonly old?: Stats };

let stdoutIsOutput = false;
/** True if an output was opened or checked that goes to stdout. */
export const writesToStdout = (): boolean => stdoutIsOutput;

/** Follows a chain of links to its end, even if the target does not exist yet. */
async function followed(path: string): Promise<string> {
  const missing = (error: NodeJS.ErrnoException): undefined => {
    if (error.code !== 'ENOENT') throw error;
  };
  for (;;) {
    const real = await realpath(path).catch(missing);
    if (real !== undefined) return real;
    const link = await readlink(path).catch(() => undefined);
    if (link === undefined) return path;
    path = isAbsolute(link) ? link : join(await realpath(dirname(path)), link);
  }
}

/**
 * Refuses names that would only fail after the work, when the file is renamed.
 * @param platform replaced by tests
 * @throws ERR_IO
 */
export function mustNameFile(output: string, platform: string = process.platform): void {
  const name = (platform === 'win32' ? win32 : posix).basename(output);
  const refuse = (why: string): never => {
    throw new QuantletError('ERR_IO', `the output ${JSON.stringify(output)} ${why}; expected the name of a file`);
  };
  if (output === '') refuse('is empty');
  if (/[/]$/.test(output) || (platform === 'win32' && output.endsWith('\\'))) refuse('is a folder');
  // Node passes the name to Windows unchanged, which can create files that other programs cannot
  // open or delete.
  const why = platform === 'win32' && !isLiteral(output) ? whyNotOnWindows(name) : undefined;
  if (why !== undefined) refuse(`cannot be the name of a file on Windows: ${why}`);
}

/**
 * Finds what an output's name stands for: a file at the end of its links, a device, or an open
 * descriptor.
 * @throws ERR_IO for a folder or a cycle of links
 */
async function targetOf(output: string): Promise<Target> {
  const device = deviceName(output);
  if (device !== undefined) return { special: device };
  mustNameFile(output);
  const open = await descriptorOf(output);
  if (open !== undefined) {
    stdoutIsOutput ||= open === 1;
    return { special: open };
  }
  const info = await stat(output).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') notOpened(output)(error);
  });
  if (info?.isDirectory()) throw new QuantletError('ERR_IO', `the output ${output} is a folder; expected the name of a file`);
  if (info && !info.isFile()) return { special: output };
  return { path: await followed(output).catch(notOpened(output)), ...(info && { old: info }) };
}

/** False for devices, pipes and sockets, which cannot be rewritten. */
export const isReplaceable = async (output: string): Promise<boolean> => (await targetOf(output)).path !== undefined;

/** @throws ERR_INVALID_ARGUMENT if the output is one of the inputs; ERR_IO */
export async function mustBeNoInput(output: string, inputs: readonly string[]): Promise<void> {
  const target = await targetOf(output);
  if (target.old === undefined) return;
  for (const input of inputs) {
    if ((await realpath(input).catch(() => undefined)) === target.path)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `the output ${output} is also the input; expected another file`);
  }
}

/**
 * Checks before the work that an output can be written.
 * @param inputs files that are read
 * @throws ERR_INVALID_ARGUMENT if the output is one of the inputs; ERR_IO if the output is
 * read-only or a folder, or if its folder cannot be written to
 */
export async function checkOutput(output: string, inputs: readonly string[] = []): Promise<void> {
  await mustBeNoInput(output, inputs);
  const { path, old } = await targetOf(output);
  if (path === undefined) return;
  if (old !== undefined) await access(path, constants.W_OK).catch(notOpened(output));
  // Creating a file is the only reliable test: folders have access lists, quotas and read-only
  // disks.
  const temporary = temporaryName(path);
  const file = await open(temporary, 'wx').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') notOpened(output)(error);
  });
  await file?.close();
  if (file) await rm(temporary, { force: true });
}

/** Gives a file the owner and mode of the file that it replaces, if the user's rights permit. */
async function takeOver(file: FileHandle, { uid, gid, mode }: Stats): Promise<void> {
  const own = await file.stat();
  if (own.uid !== uid || own.gid !== gid) await file.chown(uid, gid).catch(() => undefined);
  await file.chmod(mode & 0o777).catch(() => undefined);
}

/** @throws ERR_IO */
export async function openOutput(output: string, signal?: AbortSignal): Promise<Output> {
  const target = await targetOf(output);
  if (target.path === undefined) {
    const special = await openSpecial(target.special, signal).catch((error: unknown) => {
      signal?.throwIfAborted();
      return notOpened(output)(error);
    });
    return {
      write: (data, position) => special.write(data, position).catch(notWritten(output)),
      finish: () => special.finish().catch(notWritten(output)),
      close: special.close,
    };
  }
  const { path, old } = target;
  const temporary = temporaryName(path);
  const file = await open(temporary, 'w', old && 0o600).catch(notOpened(output));
  addUnfinished(temporary);
  if (old) await takeOver(file, old);
  return {
    async write(data, position) {
      for (let done = 0; done < data.length;)
        done += (await file.write(data, done, data.length - done, position + done).catch(notWritten(output))).bytesWritten;
    },
    async finish() {
      await file.sync().catch(notWritten(output));
      await file.close();
      unfinished.delete(temporary);
      await replace(temporary, path).catch((error: unknown) => {
        const { message } = error as Error;
        throw new QuantletError('ERR_IO', `${output} cannot be replaced (${message}); the finished file is ${temporary}: rename it`, {
          cause: error,
        });
      });
    },
    async close() {
      if (!unfinished.has(temporary)) return;
      await file.close().catch(() => undefined);
      await rm(temporary, { force: true });
      unfinished.delete(temporary);
    },
  };
}

/** @throws ERR_IO; errors of `fill`; `signal.reason` after an abort */
export async function writeNewFile(output: string, fill: (write: WriteAt) => Promise<void>, signal?: AbortSignal): Promise<void> {
  const { write, finish, close } = await openOutput(output, signal);
  try {
    await fill(write);
  } catch (error) {
    await close();
    signal?.throwIfAborted();
    throw error;
  }
  // If the complete file cannot be renamed, this error is reported even after an abort.
  await finish().finally(close);
}
