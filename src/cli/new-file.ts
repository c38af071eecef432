/** A large file written piece by piece, which has its name when it is complete: what fails or is stopped leaves nothing behind. */
import { open, realpath, rename, rm } from 'node:fs/promises';
import { QuantletError } from '../errors.ts';

/** Writes bytes from a position on; several may be under way. */
export type WriteAt = (data: Uint8Array, position: number) => Promise<void>;

/** The file an output is written to until it is complete: beside it, so that renaming is one step. */
export const temporaryName = (output: string): string => `${output}.${process.pid}.part`;

const ioError = (what: string, error: unknown): QuantletError => {
  const { code, message } = error as NodeJS.ErrnoException;
  const hint = code === 'ENOSPC' ? ': the disk is full; free some space or write elsewhere' : '';
  return new QuantletError('ERR_IO', `${what} failed (${message})${hint}`, { cause: error });
};

/** @throws QuantletError ERR_USAGE where the output is one of the files that are read */
export async function checkOutput(output: string, inputs: readonly string[]): Promise<void> {
  const there = await realpath(output).catch(() => undefined);
  if (there === undefined) return;
  for (const input of inputs) {
    if ((await realpath(input).catch(() => undefined)) === there)
      throw new QuantletError('ERR_USAGE', `the output ${output} is the input as well, expected another file`);
  }
}

/** @throws QuantletError ERR_IO (a full disk, say); what `fill` throws; `signal.reason` where aborted */
export async function writeNewFile(output: string, fill: (write: WriteAt) => Promise<void>, signal?: AbortSignal): Promise<void> {
  const temporary = temporaryName(output);
  const file = await open(temporary, 'w').catch((error: unknown) => {
    throw ioError(`opening ${temporary}`, error);
  });
  const write: WriteAt = async (data, position) => {
    for (let done = 0; done < data.length;) done += (await file.write(data, done, data.length - done, position + done)).bytesWritten;
  };
  try {
    await fill(async (data, position) => {
      await write(data, position).catch((error: unknown) => {
        throw ioError(`writing ${output}`, error);
      });
    });
    await file.sync();
    await file.close();
    await rename(temporary, output);
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true });
    signal?.throwIfAborted();
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : ioError(`writing ${output}`, error);
  }
}
