/**
 * Outputs of all commands. A file is written next to its name and renamed when it is complete: a failure or a stop leaves nothing behind, and the old file as
 * it was. A link is followed. Devices, pipes and sockets are written to as they are (special-file.ts).
 */
import { rmSync, type Stats } from 'node:fs';
import { access, constants, open, readlink, realpath, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, posix, win32 } from 'node:path';
import { QuantletError } from '../errors.ts';
import { whyNotOnWindows } from '../hub/names.ts';
import { replace } from '../hub/replace.ts';
import { descriptorOf, deviceName, isLiteral, openSpecial } from './special-file.ts';

/** Writes bytes from a position on; several may be under way. */
export type WriteAt = (data: Uint8Array, position: number) => Promise<void>;

export interface Output {
  /** @throws ERR_IO (a full disk, say) */
  readonly write: WriteAt;
  /** Completes the output: a file gets its name. @throws ERR_IO */
  finish(): Promise<void>;
  /** Closes it. Of a file that is not finished nothing stays. */
  close(): Promise<void>;
}

/** Bytes of a name in most file systems. */
const MOST_BYTES = 255;

/** The file that an output is written to until it is complete: in the same folder, so that renaming is one step. */
export function temporaryName(output: string): string {
  const ending = `.${process.pid}.part`;
  let name = basename(output);
  while (Buffer.byteLength(name) > MOST_BYTES - ending.length) name = [...name].slice(0, -1).join('');
  return join(dirname(output), `${name}${ending}`);
}

/** Files that are not finished: a process that ends in haste (a second Ctrl-C) leaves none of them. */
const unfinished = new Set<string>();
process.on('exit', () => {
  for (const path of unfinished) rmSync(path, { force: true });
});

const failed =
  (what: string) =>
  (error: unknown): never => {
    const { code, message } = error as NodeJS.ErrnoException;
    const hint = code === 'ENOSPC' ? ': the disk is full; free some space or write elsewhere' : '';
    throw new QuantletError('ERR_IO', `${what} (${message})${hint}`, { cause: error });
  };
const notOpened = (output: string): ((error: unknown) => never) => failed(`cannot write the output: opening ${output} failed`);
const notWritten = (output: string): ((error: unknown) => never) => failed(`writing ${output} failed`);

/** `path` is a file to be replaced, or made: `old` is one that exists. A number is a file that the process has open. */
type Target =
  | { readonly special: string | number; readonly path?: undefined; readonly old?: undefined }
  | { readonly special?: undefined; readonly path: string; readonly old?: Stats };

let stdoutIsOutput = false;
/** Says what a command did: on standard output, unless that is where its file goes. */
export const tell = (text: string): void => void (stdoutIsOutput ? process.stderr : process.stdout).write(text);

/** The end of a chain of links, also where that does not exist yet. */
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
 * Refuses what would fail only when the finished file gets its name.
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
  // Node asks Windows for the name as it is, and so makes files that other programs cannot open or delete.
  const why = platform === 'win32' && !isLiteral(output) ? whyNotOnWindows(name) : undefined;
  if (why !== undefined) refuse(`cannot be the name of a file on Windows: ${why}`);
}

/** @throws ERR_IO for a folder, or where a link leads in circles */
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

/** False for a device, a pipe or a socket: what goes there stays there, so that it can be written only once. */
export const isReplaceable = async (output: string): Promise<boolean> => (await targetOf(output)).path !== undefined;

/** @throws ERR_USAGE if the output is one of the files that are read; ERR_IO */
export async function mustBeNoInput(output: string, inputs: readonly string[]): Promise<void> {
  const target = await targetOf(output);
  if (target.old === undefined) return;
  for (const input of inputs) {
    if ((await realpath(input).catch(() => undefined)) === target.path)
      throw new QuantletError('ERR_USAGE', `the output ${output} is the input as well, expected another file`);
  }
}

/**
 * Finds out before the work that an output cannot be written after it.
 * @param inputs files that are read
 * @throws ERR_USAGE if the output is an input as well; ERR_IO if it is read-only, a folder, or in no folder that can be written
 */
export async function checkOutput(output: string, inputs: readonly string[] = []): Promise<void> {
  await mustBeNoInput(output, inputs);
  const { path, old } = await targetOf(output);
  if (path === undefined) return;
  if (old !== undefined) await access(path, constants.W_OK).catch(notOpened(output));
  // Only making a file tells: folders have access lists, quotas and read-only disks.
  const temporary = temporaryName(path);
  const file = await open(temporary, 'wx').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') notOpened(output)(error);
  });
  await file?.close();
  if (file) await rm(temporary, { force: true });
}

/** Gives a file the owner and the mode of the one that it replaces, as far as this user may. */
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
  unfinished.add(temporary);
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

/** @throws ERR_IO; what `fill` throws; `signal.reason` where aborted */
export async function writeNewFile(output: string, fill: (write: WriteAt) => Promise<void>, signal?: AbortSignal): Promise<void> {
  const { write, finish, close } = await openOutput(output, signal);
  try {
    await fill(write);
  } catch (error) {
    await close();
    signal?.throwIfAborted();
    throw error;
  }
  // A finished file that stays under another name is told of, whatever was aborted meanwhile.
  await finish().finally(close);
}
