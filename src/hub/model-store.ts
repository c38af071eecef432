/**
 * Models of the hub and of other servers, kept in a folder.
 *
 * The folder is QUANTLET_CACHE, or else quantlet/ in the system's cache folder. It contains:
 *
 *   OWNER/REPO[@REVISION]/FILE       files of the hub
 *   OWNER/REPO[@REVISION]/list.json  the hub's last list of the repository's files
 *   url/HASH/FILE                    files of other servers; HASH identifies the address's folder
 *   turbo/HASH.json                  results of turbo's self-test (src/turbo/verdict.ts)
 */
import { open, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { QuantletError } from '../errors.ts';
import { readGGUF } from '../gguf/read.ts';
import { splitCount } from '../gguf/split.ts';
import { checkedBytes } from '../io/source.ts';
import { cacheFolder } from './cache-folder.ts';
import { download, knownOf, type DownloadProgress, type Remote } from './download.ts';
import { createHash } from './hash.ts';
import { lock } from './lock.ts';
import type { HubOptions, KeptModel } from './options.ts';
import { nameAt, namesIn, partial, placesOf, repoFolder, repoNamed } from './places.ts';
import { replace } from './replace.ts';
import {
  advice,
  choose,
  decoded,
  entriesOf,
  failed,
  fileUrl,
  filesOf,
  headersFor,
  HUB,
  isRemote,
  listRepo,
  parsed,
  partsOf,
  remoteOf,
  wantedText,
  withoutSlash,
  type Hub,
  type HubFile,
  type RemoteModel,
  type Repo,
  type Wanted,
} from './repository.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The hub, and the folder that keeps its models. */
export interface ModelStore extends Hub {
  readonly signal: AbortSignal;
  readonly names: Required<Hub['names']>;
  readonly folder: string;
  readonly offline: boolean;
  /** Download files even if they are present. */
  readonly reload: boolean;
  /** Progress display for the download of a file. */
  progress(file: string): DownloadProgress;
  /** Reports something worth knowing that is not an error. */
  warn(message: string): void;
}

/** Settings of a store. Others come from the environment, as in the hub's own tools. */
export interface StoreOptions extends HubOptions {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly reload?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly names?: ModelStore['names'];
  readonly progress: ModelStore['progress'];
  readonly warn: ModelStore['warn'];
}

export function createStore(options: StoreOptions, env: Environment = process.env): ModelStore {
  const { endpoint = env.MODEL_ENDPOINT || env.HF_ENDPOINT || HUB, token = env.HF_TOKEN, folder = cacheFolder(env) } = options;
  return {
    endpoint: withoutSlash(endpoint),
    token,
    folder: resolve(folder),
    offline: options.offline ?? false,
    reload: options.reload ?? false,
    headers: { 'user-agent': 'quantlet', ...options.headers },
    signal: options.signal ?? new AbortController().signal,
    names: options.names ?? { token: 'the option hub.token or HF_TOKEN', offline: 'the option hub.offline' },
    progress: options.progress,
    warn: options.warn,
  };
}

/**
 * A stored model: the path of its folder, and its files' names in that folder, in the order of the
 * parts.
 */
interface Kept {
  readonly folder: string;
  readonly names: readonly string[];
}

const get = (store: ModelStore, file: Omit<Remote, 'headers'>): Promise<void> =>
  download(
    { ...file, headers: headersFor(store, file.url) },
    {
      signal: store.signal,
      progress: store.progress(basename(file.to)),
      advice: (status) => advice(store, status),
      reload: store.reload,
    },
  );

const isModel = (name: string): boolean => /\.gguf$/i.test(name);

/** The downloaded models of a folder: maps the server's name of each to its path there. */
const modelsIn = async (folder: string): Promise<ReadonlyMap<string, string>> =>
  new Map((await namesIn(folder)).filter(isModel).map((place) => [nameAt(place), place]));
const asFiles = (names: Iterable<string>): { readonly path: string }[] => [...names].map((path) => ({ path }));

/** Downloads a model. In offline mode, or if the download fails, returns the stored one. */
async function keptOr(store: ModelStore, what: string, kept: Kept | undefined, bring: () => Promise<Kept>): Promise<Kept> {
  if (store.offline) {
    if (kept) return kept;
    throw failed(
      `${what} was not downloaded to ${store.folder} before, and ${store.names.offline} allows no download; run once without it`,
    );
  }
  try {
    return await bring();
  } catch (error) {
    store.signal.throwIfAborted();
    const passes = error instanceof QuantletError && (error.code === 'ERR_DOWNLOAD' || error.code === 'ERR_BUSY');
    if (kept === undefined || !passes) throw error;
    store.warn(`${error.message}. Using what was downloaded before.`);
    return kept;
  }
}

/**
 * Reads the first of several parts before the others are downloaded: a file's name may promise
 * parts that do not exist.
 */
async function checkFirstPart(path: string, count: number): Promise<void> {
  if (count === 1) return;
  const file = await open(path);
  try {
    const read = async (start: number, end: number): Promise<Uint8Array> => {
      const { buffer, bytesRead } = await file.read(new Uint8Array(end - start), 0, end - start, start);
      return buffer.subarray(0, bytesRead);
    };
    const said = splitCount(await readGGUF(checkedBytes((await file.stat()).size, read)));
    if (said !== count)
      throw failed(
        `${basename(path)} says that its model has ${said} ${said === 1 ? 'part' : 'parts'}, its name ${count}: the other parts were not asked for; rename it, or look for the right file`,
      );
  } finally {
    await file.close();
  }
}

/**
 * Finds the wanted file of a repository among the stored ones. The choice is made from the hub's
 * last list, so that the same words mean the same file.
 */
async function keptOfRepo(folder: string, repo: Repo, wanted: Wanted): Promise<Kept | undefined> {
  const here = await modelsIn(folder);
  const isHere = (parts: readonly string[]): boolean => parts.length > 0 && parts.every((name) => here.has(name));
  const seen = entriesOf(parsed(await readFile(join(folder, 'list.json'), 'utf8').catch(() => '')));
  const names = [seen, asFiles(here.keys())].map((files) => partsOf(choose(files, repo, wanted)?.path)).find(isHere);
  return names && { folder, names: names.map((name) => here.get(name)!) };
}

/**
 * Stores the hub's list. Failure is harmless: a cache may be read-only, or another process may be
 * writing.
 */
async function keepList(folder: string, listed: readonly HubFile[]): Promise<void> {
  const list = join(folder, 'list.json');
  const mine = `${list}.${crypto.randomUUID()}`;
  try {
    await writeFile(mine, JSON.stringify(listed));
    await replace(mine, list);
  } catch {
    await rm(mine, { force: true }).catch(() => {});
  }
}

/** Finds or downloads a model of a repository, given by its file name or by a quant. */
async function repoModel(store: ModelStore, repo: Repo, wanted: Wanted): Promise<Kept> {
  const folder = await repoFolder(store.folder, repo.name, repo.revision);
  return keptOr(
    store,
    `${'file' in wanted ? '' : 'a '}${wantedText(wanted)} of ${repo.name}`,
    await keptOfRepo(folder, repo, wanted),
    async () => {
      const listed = await listRepo(store, repo);
      const files = filesOf(listed, repo, wanted);
      const names = await placesOf(
        folder,
        files.map(({ path }) => path),
      );
      for (const [i, { path, size, sha256 }] of files.entries()) {
        const to = join(folder, names[i]);
        await get(store, { url: fileUrl(store, repo, path), to, size, sha256 });
        if (i === 0) await checkFirstPart(to, files.length);
      }
      await keepList(folder, listed);
      return { folder, names };
    },
  );
}

type UrlModel = Extract<RemoteModel, { url: URL }>;

/** Folder for models from a URL of a server other than the hub. */
function urlFolder(store: Pick<ModelStore, 'folder'>, { url, before }: UrlModel): string {
  // Decoded, unless that could make two addresses equal.
  const path = (/%2f/i.test(before) ? undefined : decoded(before)) ?? before;
  const address = `${url.origin}${path}${url.search}`;
  return join(store.folder, 'url', createHash('sha256').update(address).digest('hex').slice(0, 16));
}

/** Finds the file of a URL among the stored ones. */
async function keptOfUrl(folder: string, names: readonly string[]): Promise<Kept | undefined> {
  const here = await modelsIn(folder);
  return names.every((name) => here.has(name)) ? { folder, names: names.map((name) => here.get(name)!) } : undefined;
}

/** Finds or downloads a model of a server other than the hub. */
async function urlModel(store: ModelStore, model: UrlModel): Promise<Kept> {
  const names = partsOf(model.name);
  const folder = urlFolder(store, model);
  return keptOr(store, names[0], await keptOfUrl(folder, names), async () => {
    const places = await placesOf(folder, names);
    for (const [i, name] of names.entries()) {
      const part = Object.assign(new URL(model.url), { pathname: model.before + encodeURIComponent(name) });
      const to = join(folder, places[i]);
      await get(store, { url: part.href, to });
      if (i === 0) await checkFirstPart(to, names.length);
    }
    return { folder, names: places };
  });
}

/**
 * Returns the path of a model (of its first part if it is split), downloading it if necessary.
 * @throws ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function bring(store: ModelStore, remote: RemoteModel): Promise<string> {
  const { folder, names } = 'repo' in remote ? await repoModel(store, remote.repo, remote.wanted) : await urlModel(store, remote);
  return join(folder, names[0]);
}

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
