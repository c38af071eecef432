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
import { open, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { QuantletError } from '../errors.ts';
import { readGGUF } from '../gguf/read.ts';
import { splitCount } from '../gguf/split.ts';
import { checkedBytes } from '../io/source.ts';
import { decoded, fileUrl, remoteOf, takesProjector, type RemoteModel } from './addresses.ts';
import { cacheFolder } from './cache-folder.ts';
import { choose, chooseProjector, filesOf, isModel, partsOf, wantedText } from './choose-file.ts';
import { download, type DownloadProgress, type Remote } from './download.ts';
import { createHash } from './hash.ts';
import type { HubOptions } from './options.ts';
import { nameAt, namesIn, placesOf, repoFolder } from './places.ts';
import { replace } from './replace.ts';
import { failed, HUB, withoutSlash, type Hub, type HubFile, type Repo, type Wanted } from './repository.ts';
import { advice, entriesOf, headersFor, listRepo, parsed } from './requests.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The hub, and the folder that keeps its models. */
export interface ModelStore extends Hub {
  readonly signal: AbortSignal;
  readonly names: Required<Hub['names']>;
  readonly folder: string;
  readonly offline: boolean;
  /** Download files even if they are present. */
  readonly reload: boolean;
  /** Progress display for the download of a file, whose SHA-256 the hub may give. */
  progress(file: string, sha256?: string): DownloadProgress;
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
    lists: new Map(),
    names: options.names ?? { token: 'the option hub.token or HF_TOKEN', offline: 'the option hub.offline' },
    progress: options.progress,
    warn: options.warn,
  };
}

/**
 * A stored model: the path of its folder, and its files' names in that folder, in the order of the
 * parts.
 */
export interface Kept {
  readonly folder: string;
  readonly names: readonly string[];
  /** The model's projector in its repository, which may not be stored. */
  readonly projector?: string | undefined;
}

const get = (store: ModelStore, file: Omit<Remote, 'headers'>): Promise<void> =>
  download(
    { ...file, headers: headersFor(store, file.url) },
    {
      signal: store.signal,
      progress: store.progress(basename(file.to), file.sha256),
      advice: (status) => advice(store, status),
      reload: store.reload,
    },
  );

/** The downloaded models of a folder: maps the server's name of each to its path there. */
const modelsIn = async (folder: string): Promise<ReadonlyMap<string, string>> =>
  new Map((await namesIn(folder)).filter(isModel).map((place) => [nameAt(place), place]));
export const asFiles = (names: Iterable<string>): { readonly path: string }[] => [...names].map((path) => ({ path }));

/** Downloads a model. In offline mode, or if the download fails, returns the stored one. */
async function keptOr(store: ModelStore, what: string, kept: Kept | undefined, bring: () => Promise<Kept>): Promise<Kept> {
  if (store.offline) {
    if (kept) return kept;
    throw failed(`${what} is not in ${store.folder}, and ${store.names.offline} forbids downloads; run once without it`);
  }
  try {
    return await bring();
  } catch (error) {
    store.signal.throwIfAborted();
    const passes = error instanceof QuantletError && (error.code === 'ERR_DOWNLOAD' || error.code === 'ERR_BUSY');
    if (kept === undefined || !passes) throw error;
    store.warn(`${error.message}; the file that was downloaded before is used`);
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
        `${basename(path)} says that its model has ${said} ${said === 1 ? 'part' : 'parts'}, but its name says ${count}; expected the same number: rename it, or find the right file`,
      );
  } finally {
    await file.close();
  }
}

/**
 * Finds the wanted file of a repository among the stored ones. The choice is made from the hub's
 * last list, so that the same words mean the same file.
 */
export async function keptOfRepo(folder: string, repo: Repo, wanted: Wanted): Promise<Kept | undefined> {
  const here = await modelsIn(folder);
  const isHere = (parts: readonly string[]): boolean => parts.length > 0 && parts.every((name) => here.has(name));
  const seen = entriesOf(parsed(await readFile(join(folder, 'list.json'), 'utf8').catch(() => '')));
  for (const files of [seen, asFiles(here.keys())]) {
    const names = partsOf(choose(files, repo, wanted)?.path);
    if (isHere(names)) return { folder, names: names.map((name) => here.get(name)!), projector: chooseProjector(files, names[0])?.path };
  }
  return undefined;
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
      return { folder, names, projector: chooseProjector(listed, files[0].path)?.path };
    },
  );
}

type UrlModel = Extract<RemoteModel, { url: URL }>;

/** Folder for models from a URL of a server other than the hub. */
export function urlFolder(store: Pick<ModelStore, 'folder'>, { url, before }: UrlModel): string {
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

/** A model of the store. */
export interface Brought {
  /** Path of its file; of the first part if it is split. */
  readonly path: string;
  /** Address of its projector in the same repository. */
  readonly projector?: URL | undefined;
}

/**
 * Returns a model, and the projector of its repository if the source asks for it, downloading the
 * model if necessary.
 * @throws ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function bringWithProjector(store: ModelStore, source: string | URL, what: string): Promise<Brought> {
  const remote = remoteOf(source, store, what);
  return 'repo' in remote && takesProjector(source, remote)
    ? bringRepo(store, remote.repo, remote.wanted)
    : { path: await bring(store, remote) };
}

/** The same for a model of a repository. Offline, only a projector that is stored counts. */
export async function bringRepo(store: ModelStore, repo: Repo, wanted: Wanted): Promise<Brought> {
  const { folder, names, projector } = await repoModel(store, repo, wanted);
  const path = join(folder, names[0]);
  if (projector === undefined) return { path };
  if (!store.offline || (await keptOfRepo(folder, repo, { file: projector })))
    return { path, projector: new URL(fileUrl(store, repo, projector)) };
  store.warn(`${projector} of ${repo.name} was not downloaded, and ${store.names.offline} forbids it; the model sees no images`);
  return { path };
}

/** Path of the projector of a stored model, if that is stored too. */
export async function keptProjector(store: ModelStore, repo: Repo, wanted: Wanted): Promise<string | undefined> {
  const folder = await repoFolder(store.folder, repo.name, repo.revision);
  const projector = (await keptOfRepo(folder, repo, wanted))?.projector;
  const kept = projector === undefined ? undefined : await keptOfRepo(folder, repo, { file: projector });
  return kept && join(folder, kept.names[0]);
}

/**
 * Returns the path of a model (of its first part if it is split), downloading it if necessary.
 * @throws ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function bring(store: ModelStore, remote: RemoteModel): Promise<string> {
  const { folder, names } = 'repo' in remote ? await repoModel(store, remote.repo, remote.wanted) : await urlModel(store, remote);
  return join(folder, names[0]);
}
