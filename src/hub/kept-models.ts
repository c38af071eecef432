/** Lists and removes the models in the folder of a store. */
import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { QuantletError } from '../errors.ts';
import { isRemote, remoteOf } from './addresses.ts';
import { choose, isModel, partsOf } from './choose-file.ts';
import { knownOf } from './download.ts';
import { lock } from './lock.ts';
import { asFiles, keptOfRepo, urlFolder, type Kept, type ModelStore } from './model-store.ts';
import type { KeptModel } from './options.ts';
import { nameAt, namesIn, partial, placesOf, repoFolder, repoNamed } from './places.ts';

/**
 * Matches the files that belong to one of these names: the file itself, its .json, and its parts in
 * download.
 */
const belongsTo = (names: readonly string[]): ((file: string) => boolean) => {
  const known = new Set(names);
  return (file) => known.has(file) || known.has(file.replace(/\.json$/, '')) || known.has(partial(file) ?? '');
};

/** Lists all models in a store's folder, complete or not. */
export async function keptModels({ folder }: Pick<ModelStore, 'folder'>): Promise<KeptModel[]> {
  const files = await namesIn(folder);
  const there = new Set(files);
  const models = new Set(files.map((file) => partial(file) ?? file).filter(isModel));
  const firsts = new Set([...models].map((name) => partsOf(name)[0]));
  return Promise.all(
    [...firsts].map(async (name): Promise<KeptModel> => {
      const names = partsOf(name);
      const path = join(folder, name);
      const sizes = await Promise.all(
        files.filter(belongsTo(names)).map((file) =>
          file.endsWith('.json')
            ? 0
            : stat(join(folder, file)).then(
                ({ size }) => size,
                () => 0,
              ),
        ),
      );
      const [, repo, file] = /^(?!url\/)([^/@]+\/[^/@]+)\/(.+)$/.exec(name) ?? [];
      return {
        source: repo === undefined ? ((await knownOf(path))?.url ?? path) : `hf:${repoNamed(repo)}/${nameAt(file)}`,
        path,
        size: sizes.reduce((a, b) => a + b, 0),
        complete: names.every((part) => there.has(part)),
      };
    }),
  );
}

/** The stored names, complete or not, of the model that a source means. */
async function namesOf(store: ModelStore, source: string | URL): Promise<Kept | undefined> {
  const path = isRemote(source) ? '' : resolve(String(source));
  if (path.startsWith(store.folder.replace(/[\\/]$/, '') + sep) && isModel(path)) {
    // OWNER/REPO or url/HASH, then the rest.
    const [outer, inner, ...rest] = relative(store.folder, path).split(sep);
    if (rest.length > 0) return { folder: join(store.folder, outer, inner), names: partsOf(rest.join('/')) };
  }
  const remote = remoteOf(source, store, 'the source');
  if ('url' in remote) {
    const folder = urlFolder(store, remote);
    return { folder, names: await placesOf(folder, partsOf(remote.name)) };
  }
  const folder = await repoFolder(store.folder, remote.repo.name, remote.repo.revision);
  const kept = await keptOfRepo(folder, remote.repo, remote.wanted);
  if (kept) return kept;
  const begun = (await namesIn(folder)).map((name) => nameAt(partial(name) ?? name)).filter(isModel);
  const names = partsOf(choose(asFiles(begun.map((path) => partsOf(path)[0])), remote.repo, remote.wanted)?.path);
  return names.length > 0 ? { folder, names: await placesOf(folder, names) } : undefined;
}

/**
 * Removes a model and everything that belongs to it. Returns the number of bytes freed, 0 if it was
 * not there.
 * @throws ERR_INVALID_ARGUMENT, ERR_IO, or signal.reason
 */
export async function removeModel(store: ModelStore, source: string | URL): Promise<number> {
  const found = await namesOf(store, source);
  let freed = 0;
  for (const name of found?.names ?? []) {
    const path = join(found!.folder, name);
    const files = (await readdir(dirname(path)).catch(() => [])).filter(belongsTo([basename(path)]));
    if (files.length === 0) continue;
    const release = await lock(`${path}.lock`, store.signal, () => {}); // lets a running download finish first
    try {
      for (const file of files) {
        const at = join(dirname(path), file);
        freed += file.endsWith('.json')
          ? 0
          : await stat(at).then(
              ({ size }) => size,
              () => 0,
            );
        await rm(at, { force: true });
      }
    } catch (cause) {
      throw new QuantletError('ERR_IO', `cannot remove ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    } finally {
      await release();
    }
  }
  if (found) await prune(found.folder, store.folder);
  return freed;
}

/** Removes leftovers: the list in a folder without models, and empty folders up to the store's. */
async function prune(folder: string, top: string): Promise<void> {
  const files = await namesIn(folder);
  if (!files.some((name) => isModel(name) || partial(name) !== undefined))
    for (const name of files) if (/^list\.json(\.[\w-]+)?$/.test(name)) await rm(join(folder, name), { force: true });
  const gone = (path: string): Promise<boolean> =>
    rmdir(path).then(
      () => true,
      () => false, // not empty, or not a folder
    );
  for (const inner of files.reverse()) await gone(join(folder, inner));
  for (let at = folder; at !== top && (await gone(at));) at = dirname(at);
}
