/** Files and folders of `quantlet serve`: models, static files, saved slots, batches. */
import { createReadStream } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, realpath, rm, stat, truncate } from 'node:fs/promises';
import { basename, extname, join, sep } from 'node:path';
import { Readable } from 'node:stream';
import { QuantletError } from '../errors.ts';
import { HttpError } from '../server/http/http-error.ts';
import type { BatchStore } from '../server/batch/batch-state.ts';
import type { SlotStore } from '../server/options.ts';
import { sureHelper } from '../hub/helper-files.ts';
import { whyNoName } from '../hub/names.ts';
import { writeNewFile } from '../tools/new-file.ts';
import { unreadable } from '../entry/node-platform.ts';

/** A model's name: its file name without `.gguf` and without the number of a first part. */
export const modelName = (path: string): string => basename(path).replace(/(?:-00001-of-\d{5})?\.gguf$/i, '');

/**
 * The models in a folder, sorted by name. The first part stands for a split model. Projectors,
 * drafters and importance matrices are skipped.
 */
export async function modelsIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(unreadable('the folder of --models-dir', folder));
  const models = names.filter(
    (name) => /\.gguf$/i.test(name) && sureHelper(name) === undefined && !/-(?!00001)\d{5}-of-\d{5}\.gguf$/i.test(name),
  );
  if (models.length === 0) throw new QuantletError('ERR_USAGE', `--models-dir ${folder} has no .gguf file; expected at least one model`);
  return models.sort().map((name) => join(folder, name));
}

/** Content types by file extension; others are served as bytes. */
const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.gif': 'image/gif',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.md': 'text/markdown; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
};

/**
 * Serves the files of a folder, for `files` of createHandler. Never serves a file outside of it,
 * even through links or `..`, nor a name that begins with a dot.
 * @param platform replaced by tests
 */
export async function folderFiles(
  folder: string,
  platform: string = process.platform,
): Promise<(path: string) => Promise<Response | undefined>> {
  const root = await realpath(folder).catch(unreadable('the folder of --path', folder));
  return async (path) => {
    const file = await fileIn(root, path, platform);
    if (file === undefined) return undefined;
    const info = await stat(file);
    if (info.isDirectory()) return path.endsWith('index.html') ? undefined : fileResponse(join(file, 'index.html'));
    return fileResponse(file);
  };
}

/**
 * The file or folder at a path of strangers, in `root`. Undefined without one, for names that begin
 * with a dot, and for paths that lead out of the folder, even through links or `..`.
 * @param root a path without links
 */
export async function fileIn(root: string, path: string, platform: string = process.platform): Promise<string | undefined> {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.some((part) => part.startsWith('.') || /[\\\0:]/.test(part))) return undefined;
  const file = await realpath(join(root, ...parts)).catch(() => undefined);
  if (file === undefined || (file !== root && !file.startsWith(root + sep))) return undefined;
  // Windows has other names for the same file: devices, trailing dots, and short names (ENV~1 for
  // .env).
  const names = platform === 'win32' ? [...parts, ...file.slice(root.length).split(sep).slice(1)] : [];
  return names.some((name) => name.startsWith('.') || whyNoName(name) !== undefined) ? undefined : file;
}

async function fileResponse(file: string): Promise<Response | undefined> {
  const info = await stat(file).catch(() => undefined);
  if (!info?.isFile()) return undefined;
  const body = Readable.toWeb(createReadStream(file)) as unknown as ReadableStream<Uint8Array>;
  return new Response(body, {
    headers: {
      'content-type': TYPES[extname(file).toLowerCase()] ?? 'application/octet-stream',
      'content-length': String(info.size),
      'x-content-type-options': 'nosniff',
    },
  });
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Largest number of saved slots, because each may be as large as the cache. */
const MOST_SLOTS = 64;
const ENDING = '.slot';

/** A folder as `slotStore` of createHandler. It is created if missing. */
export async function folderSlots(folder: string): Promise<SlotStore> {
  await mkdir(folder, { recursive: true }).catch(unreadable('the folder of --slot-save-path', folder));
  const pathOf = (name: string): string => join(folder, name + ENDING);
  const refuse = (status: number, message: string, code: string): never => {
    throw new HttpError(status, message, { param: 'filename', code });
  };
  return {
    async write(name, state) {
      const file = name + ENDING;
      const why = whyNoName(file);
      if (why !== undefined) refuse(400, `A file cannot be named ${JSON.stringify(file)} on every system: ${why}.`, 'invalid_value');
      const saved = (await readdir(folder)).filter((other) => other.endsWith(ENDING));
      if (!saved.includes(file)) {
        if (saved.length >= MOST_SLOTS) refuse(409, `${MOST_SLOTS} slots are saved already; overwrite one of them.`, 'too_many_saved');
        // File systems of Windows and macOS ignore case in names.
        if (await isThere(pathOf(name)))
          refuse(
            409,
            `A saved slot has the name ${JSON.stringify(name)}, which differs only in case; overwrite it, or give another name.`,
            'name_taken',
          );
      }
      await replaceFile(pathOf(name), state);
    },
    read: async (name) => ((await readdir(folder)).includes(name + ENDING) ? readFile(pathOf(name)) : undefined),
  };
}

/** Replaces a file atomically: half of a file would be reported as damaged. */
const replaceFile = (path: string, bytes: Uint8Array): Promise<void> => writeNewFile(path, (write) => write(bytes, 0));

/** The chunks of a file; none if it does not exist. */
export async function* fileBytes(path: string): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 2 ** 20 })) yield piece as Uint8Array;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** A folder as the store of openBatches. It is created if missing. */
export async function folderBatches(folder: string): Promise<BatchStore> {
  await mkdir(folder, { recursive: true }).catch(unreadable('the folder of --batch-dir', folder));
  const pathOf = (name: string): string => join(folder, name);
  return {
    list: () => readdir(folder),
    read: (name) => fileBytes(pathOf(name)),
    size: (name) =>
      stat(pathOf(name)).then(
        ({ size }) => size,
        () => 0,
      ),
    put: (name, bytes) => replaceFile(pathOf(name), bytes),
    append: (name, bytes) => appendFile(pathOf(name), bytes),
    truncate: (name, size) => truncate(pathOf(name), size),
    remove: (name) => rm(pathOf(name), { force: true }),
  };
}
