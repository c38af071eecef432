/**
 * Paths of models in the cache folder. On some disks (Windows, macOS), names that differ only in
 * case are the same name. The second such name gets a tagged path. This is done on every system, so
 * that a folder can move between them.
 */
import { readdir } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { createHash } from './hash.ts';

/** Folders of the cache that are not owners of repositories. */
const OWN_FOLDERS: ReadonlySet<string> = new Set(['url', 'turbo']);

const tagOf = (name: string): string => `~${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
const TAG = /~[0-9a-f]{8}/;
/**
 * A name in the form that case-insensitive disks compare, also equal for composed and decomposed
 * letters.
 */
const folded = (name: string): string => name.normalize('NFC').toLowerCase();

/** All paths in a folder, recursively. A subfolder precedes its contents. */
export const namesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder, { recursive: true }).catch(() => [])).sort().map((name) => name.replaceAll(sep, '/'));

/** Returns NAME.gguf for NAME.gguf.TAG.part. */
export const partial = (name: string): string | undefined => /^(.+\.gguf)\.[0-9a-f]{8}\.part$/i.exec(name)?.[1];

async function folderNamed(parent: string, name: string): Promise<string> {
  const there: readonly string[] = await readdir(parent).catch(() => []);
  const other = name + tagOf(name);
  const taken = OWN_FOLDERS.has(folded(name)) || (!there.includes(name) && there.some((one) => folded(one) === folded(name)));
  return join(parent, taken || there.includes(other) ? other : name);
}

/** The folder of a repository at a revision. */
export async function repoFolder(top: string, name: string, revision: string): Promise<string> {
  const [owner, repo] = name.split('/');
  return folderNamed(await folderNamed(top, owner), revision === 'main' ? repo : `${repo}@${encodeURIComponent(revision)}`);
}

/** OWNER/REPO as on the hub, from the path of its folder in the cache. */
export const repoNamed = (path: string): string =>
  path
    .split('/')
    .map((part) => part.replace(new RegExp(`${TAG.source}$`), ''))
    .join('/');

/** The paths, relative to their folder, that files of these names have or will have. */
export async function placesOf(folder: string, names: readonly string[]): Promise<readonly string[]> {
  const tagFolder = `${tagOf(names[0])}/`;
  const here = new Set((await namesIn(folder)).map((name) => partial(name) ?? name.replace(/\.lock$/, '')));
  if ([...here].some((name) => name.startsWith(tagFolder))) return names.map((name) => tagFolder + name);
  const mine = new Map(names.map((name) => [folded(name), name]));
  const isTaken = !names.every((name) => here.has(name)) && [...here].some((one) => (mine.get(folded(one)) ?? one) !== one);
  return isTaken ? names.map((name) => tagFolder + name) : names;
}

/** The server's name of the file at this path relative to its folder. */
export const nameAt = (place: string): string => place.replace(new RegExp(`^${TAG.source}/`), '');
