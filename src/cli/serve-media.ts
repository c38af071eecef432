/** Images that requests name by URLs: at the hosts of --media-url, and in the folder of --media-path. */
import { readFile, realpath, stat } from 'node:fs/promises';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { unreadImage, type MediaOptions } from '../server/media.ts';
import type { HandlerOptions } from '../server/options.ts';
import { downloadImage, hostsOf } from './media-url.ts';
import { fileIn } from './serve-files.ts';
import type { ServeFlags } from './serve-flags.ts';

/**
 * `media` of createHandler, from the flags; undefined without one of them.
 * @throws ERR_USAGE, ERR_SOURCE
 */
export async function mediaOf({ mediaPath, mediaUrl = [] }: ServeFlags): Promise<HandlerOptions['media']> {
  const root = mediaPath === undefined ? undefined : await folderOf(mediaPath);
  const hosts = hostsOf(mediaUrl);
  if (root === undefined && hosts.length === 0) return undefined;
  return async (url, options) => {
    if (/^file:/i.test(url)) return root === undefined ? undefined : fileImage(root, url, options);
    return /^https?:/i.test(url) && hosts.length > 0 ? downloadImage(hosts, url, options) : undefined;
  };
}

/** @throws ERR_SOURCE, ERR_USAGE for a file */
async function folderOf(path: string): Promise<string> {
  const root = await realpath(path).catch(unreadable('the folder of --media-path', path));
  if (!(await stat(root)).isDirectory()) throw new QuantletError('ERR_USAGE', `--media-path is ${path}, a file; expected a folder`);
  return root;
}

/** A file of the folder. The URL has its path from there, as in llama-server: `file://a/b.png`. */
async function fileImage(root: string, url: string, { maxBytes, signal }: MediaOptions): Promise<Uint8Array> {
  const path = /^file:\/\/(.*)$/is.exec(url)?.[1] ?? '';
  const file = path.length > 0 && path.length <= 255 ? await fileIn(root, path) : undefined;
  const info = file === undefined ? undefined : await stat(file).catch(() => undefined);
  if (file === undefined || !info?.isFile())
    throw unreadImage(
      `There is no file ${JSON.stringify(path.slice(0, 255))} for images; expected file:// and a path in the folder of --media-path.`,
    );
  if (info.size > maxBytes) throw unreadImage(`The file of an image has ${info.size} bytes; expected at most ${maxBytes} (--max-body).`);
  return readFile(file, { signal });
}
