/**
 * Download of one file into a folder. The file is either complete and checked, or absent. An
 * interrupted download resumes in the same run or the next one. Processes that want the same file
 * wait for the one that is downloading it.
 *
 * Bytes are written to NAME.TAG.part, where TAG identifies the version, at their final offsets. If
 * two processes ever write the same part, they write the same bytes. The part is renamed once its
 * size and hash are right. NAME.json then records the version of NAME.
 */
import type { Hash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rm, stat, statfs, writeFile, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { bytesText } from '../bytes-text.ts';
import { QuantletError } from '../errors.ts';
import { openHttp, weakly, type HttpOptions } from '../io/http.ts';
import { MAGICS } from '../gguf/types.ts';
import { createHash } from './hash.ts';
import { lock } from './lock.ts';
import { mayBeOpen, replace, whileOpen } from './replace.ts';

export interface Remote {
  readonly url: string;
  /** Path of the downloaded file. */
  readonly to: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Expected size, from a source other than the server that sends the bytes (the hub's list). */
  readonly size?: number | undefined;
  /** Lower-case hex. */
  readonly sha256?: string | undefined;
}

/** Receiver of a download's progress. */
export interface DownloadProgress {
  /** Bytes present, and the total; undefined if the server does not say. */
  set(loaded: number, total: number | undefined): void;
  /** Called while another process downloads the file. */
  waiting(): void;
  end(): void;
}

/** Contents of NAME.json. */
export interface Known {
  readonly url: string;
  readonly size: number;
  /** SHA-256, ETag or modification date; null if the server gave none of them. */
  readonly version: string | null;
}

export interface DownloadOptions {
  readonly signal: AbortSignal;
  readonly progress: DownloadProgress;
  readonly advice?: HttpOptions['advice'];
  /** Download the file even if it is present. */
  readonly reload?: boolean | undefined;
  /** As in openHttp. */
  readonly retryMs?: number | undefined;
  readonly stallMs?: number | undefined;
}

const failed = (url: string, why: string): QuantletError => new QuantletError('ERR_DOWNLOAD', `cannot get ${url}: ${why}`);
const sizeOf = (path: string): Promise<number | undefined> =>
  stat(path).then(
    (s) => s.size,
    () => undefined,
  );
const http = ({ headers, sha256 }: Remote, { signal, advice, retryMs, stallMs }: DownloadOptions): HttpOptions =>
  // A compressed answer cannot be resumed, and its length is not the file's length. Several servers
  // of one file may give different ETags, so if the hash is known, it alone decides.
  ({ headers: { ...headers, 'accept-encoding': 'identity' }, signal, advice, retryMs, stallMs, anyVersion: sha256 !== undefined });

/** Contents of NAME.json; undefined if the file is missing. */
export const knownOf = (path: string): Promise<Known | undefined> =>
  readFile(`${path}.json`, 'utf8').then(
    (text) => JSON.parse(text) as Known,
    () => undefined,
  );

/** Tells if the file is present and is still the version that the server has. */
async function isCurrent(remote: Remote, options: DownloadOptions): Promise<boolean> {
  const { to, url, sha256 } = remote;
  const size = await sizeOf(to);
  const known = size === undefined ? undefined : await knownOf(to);
  if (!known || known.size !== size || known.url !== url) return false;
  if (sha256 !== undefined) return known.version === sha256;
  if (remote.size !== undefined) return remote.size === size;
  const file = await openHttp(url, Math.max(0, size - 1), http(remote, options));
  file.close();
  return (file.byteLength ?? size) === size && (file.version ?? null) === (known.version && weakly(known.version));
}

/**
 * Downloads the file to `remote.to`, unless it is there already.
 * @throws ERR_DOWNLOAD for faults of the server or the connection, ERR_IO for faults of the disk,
 * or signal.reason
 */
export async function download(remote: Remote, options: DownloadOptions): Promise<void> {
  const { to } = remote;
  const { signal, progress, reload = false } = options;
  if (!reload && (await isCurrent(remote, options))) return;
  let release: (() => Promise<void>) | undefined;
  try {
    await mkdir(dirname(to), { recursive: true });
    release = await lock(`${to}.lock`, signal, progress.waiting);
    if (!reload && (await isCurrent(remote, options))) return; // the process that had the lock has downloaded it
    const resumed = await fetchTo(remote, options);
    // A part from an older run may be damaged, for example by a crash of the machine: start again
    // from the beginning.
    if (resumed === 'damaged') await fetchTo(remote, options);
  } catch (error) {
    signal.throwIfAborted();
    throw isDiskError(error) ? diskError(to, error) : error; // a caller's progress function may throw anything
  } finally {
    progress.end();
    await release?.();
  }
}

const isDiskError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && !(error instanceof QuantletError) && 'code' in error && typeof error.code === 'string';

function diskError(to: string, cause: NodeJS.ErrnoException): QuantletError {
  const why =
    cause.code === 'ENOSPC' || cause.code === 'EDQUOT'
      ? 'there is no space left; free some, or set QUANTLET_CACHE to a folder that has space. What was downloaded is kept, and the next run resumes'
      : cause.code === 'EACCES' || cause.code === 'EPERM' || cause.code === 'EROFS'
        ? `it cannot be written (${cause.code}); set QUANTLET_CACHE to a folder that can`
        : cause.message;
  return new QuantletError('ERR_IO', `cannot write ${to}: ${why}`, { cause });
}

interface Part {
  readonly path: string;
  readonly size: number;
}

/** Parts left by older runs, the longest first. */
async function partsLeft(to: string): Promise<Part[]> {
  const prefix = `${basename(to)}.`;
  const folder = dirname(to);
  const names = (await readdir(folder)).filter((name) => name.startsWith(prefix) && name.endsWith('.part'));
  const parts = await Promise.all(names.map(async (name) => ({ path: join(folder, name), size: (await sizeOf(join(folder, name))) ?? 0 })));
  return parts.sort((a, b) => b.size - a.size);
}

const partOf = (to: string, version: string): string => `${to}.${createHash('sha256').update(version).digest('hex').slice(0, 8)}.part`;

/**
 * Downloads or resumes the file. 'damaged': the resumed part was not a beginning of the file, and
 * was deleted.
 */
async function fetchTo(remote: Remote, options: DownloadOptions): Promise<'done' | 'damaged'> {
  const { url, to, sha256 } = remote;
  const begun =
    sha256 === undefined ? (await partsLeft(to))[0] : { path: partOf(to, sha256), size: (await sizeOf(partOf(to, sha256))) ?? 0 };
  // Requests the last byte again: a server cannot answer a range that begins at the end.
  const from = Math.max(0, (begun?.size ?? 0) - 1);
  const file = await openHttp(url, from, http(remote, options));
  let handle: FileHandle | undefined, worthless: string | undefined;
  try {
    const { byteLength } = file;
    const size = remote.size ?? byteLength;
    if (byteLength !== undefined && byteLength !== size)
      throw failed(url, `the server announces ${byteLength} bytes; expected ${size}, as in the list of files: try again later`);
    const version = sha256 ?? file.version ?? null;
    // Without a version, a part on disk cannot be known to belong to this file, so a new one is
    // started.
    const part = partOf(to, version === null ? crypto.randomUUID() : `${version} ${size ?? ''}`.trim());
    const path = sha256 === undefined ? part : partOf(to, sha256);
    const at = begun?.path === path && (size === undefined || from < size) ? from : 0;
    await checkSpace(dirname(to), size === undefined ? 0 : size - at);
    handle = await open(path, at > 0 ? 'r+' : 'w+');
    if (version === null) worthless = path;
    const hash = sha256 === undefined ? undefined : createHash('sha256');
    if (hash) await hashStart(handle, at, hash, options.signal);
    let end = at;
    let checked = false;
    options.progress.set(end, size);
    for await (const chunk of file.chunks(at)) {
      await writeAt(handle, chunk, end);
      hash?.update(chunk);
      end += chunk.length;
      if (!checked && end >= 4) {
        const start = await firstBytes(handle);
        checked = MAGICS.includes(start);
        if (!checked) worthless = path;
        if (!checked && at > 0) return 'damaged';
        if (!checked)
          throw failed(
            url,
            `it begins with ${JSON.stringify(start)}; expected "GGUF": this is a different file, or a web page about the model`,
          );
      }
      options.progress.set(end, size);
    }
    if (size !== undefined && end !== size) throw failed(url, `${end} bytes arrived; expected ${size}: try again`);
    if (!checked) throw failed(url, `it has ${end} bytes, too few for a model`);
    if (hash && hash.digest('hex') !== sha256) {
      worthless = path;
      if (at > 0) return 'damaged';
      throw failed(
        url,
        `its SHA-256 differs; expected ${sha256}, as in the list of files: it was damaged on the way, or has changed since, try again`,
      );
    }
    await handle.sync();
    await handle.close(); // Windows does not rename an open file
    handle = undefined;
    await takePlace(path, to, { url, size: end, version });
    return 'done';
  } finally {
    file.close();
    await handle?.close();
    if (worthless !== undefined) await rm(worthless, { force: true });
  }
}

/**
 * Moves a complete file to its final name. A crash in between is harmless: a file without its .json
 * is downloaded again.
 * @throws ERR_BUSY if an older file is open (Windows). The new file keeps its .part name, so the
 * next run has nothing to download.
 */
async function takePlace(path: string, to: string, known: Known): Promise<void> {
  const before = await readFile(`${to}.json`).catch(() => undefined);
  try {
    await whileOpen(() => rm(`${to}.json`, { force: true }));
    await replace(path, to);
  } catch (cause) {
    if (!mayBeOpen(cause) || (await sizeOf(to)) === undefined) throw cause;
    if (before) await writeFile(`${to}.json`, before);
    throw new QuantletError(
      'ERR_BUSY',
      `${to} is open in another program and cannot be replaced by the newer file; close it and run again: the download is kept`,
      { cause },
    );
  }
  await writeFile(`${path}.json`, JSON.stringify(known));
  await replace(`${path}.json`, `${to}.json`);
  // Parts that another process still writes or reads are removed after the next download.
  for (const old of await partsLeft(to)) await rm(old.path, { force: true }).catch(() => {});
}

async function checkSpace(folder: string, need: number): Promise<void> {
  const free = await statfs(folder).then(
    (s) => s.bavail * s.bsize,
    () => Infinity,
  );
  if (need > free)
    throw new QuantletError(
      'ERR_IO',
      `there is no space for the model: ${folder} has ${bytesText(free)} free; expected ${bytesText(need)}: free some, or set QUANTLET_CACHE to a folder with more`,
    );
}

const firstBytes = async (handle: FileHandle): Promise<string> =>
  new TextDecoder('latin1').decode((await handle.read(new Uint8Array(4), 0, 4, 0)).buffer);

async function hashStart(handle: FileHandle, end: number, hash: Hash, signal: AbortSignal): Promise<void> {
  const chunk = new Uint8Array(1 << 20);
  for (let at = 0; at < end;) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, Math.min(chunk.length, end - at), at);
    if (bytesRead === 0) break; // the file was truncated meanwhile: the hash will not match
    hash.update(chunk.subarray(0, bytesRead));
    at += bytesRead;
  }
}

async function writeAt(handle: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < chunk.length;) done += (await handle.write(chunk, done, chunk.length - done, position + done)).bytesWritten;
}
