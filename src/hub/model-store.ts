/**
 * Models of the hub and of other servers, kept in a folder:
 *
 *   QUANTLET_CACHE, else quantlet/ in the folder that the system has for such things
 *     OWNER/REPO[@REVISION]/FILE       of the hub
 *     OWNER/REPO[@REVISION]/list.json  the hub's list of its files, when it was last asked
 *     url/HASH/FILE                    of other servers, HASH telling the address's folder
 *     turbo/HASH.json                  what turbo's self-test said (src/turbo/verdict.ts)
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

/** The hub, and the folder where its models are kept. */
export interface ModelStore extends Hub {
  readonly signal: AbortSignal;
  readonly names: Required<Hub['names']>;
  readonly folder: string;
  readonly offline: boolean;
  /** Get it again even if it is there. */
  readonly reload: boolean;
  /** Shows the download of a file. */
  progress(file: string): DownloadProgress;
  /** Something to know that is no error. */
  warn(message: string): void;
}

/** What a caller sets of a store; the rest comes from the environment, as for the hub's own tools. */
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

/** A model as it is kept: the path of its folder, and the names in it of its files, in the order of its parts. */
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

/** The downloaded models in a folder: where each lies, by the server's name for it. */
const modelsIn = async (folder: string): Promise<ReadonlyMap<string, string>> =>
  new Map((await namesIn(folder)).filter(isModel).map((place) => [nameAt(place), place]));
const asFiles = (names: Iterable<string>): { readonly path: string }[] => [...names].map((path) => ({ path }));

/** Gets a model, unless only what is kept may be used, or nothing else can be got. */
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

/** Of several parts the first is looked into before the others are got: a name may promise parts that there are not. */
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

/** The wanted file of a repository among those that are kept: chosen from the hub's list as it was last seen, so that the same words mean the same file. */
async function keptOfRepo(folder: string, repo: Repo, wanted: Wanted): Promise<Kept | undefined> {
  const here = await modelsIn(folder);
  const isHere = (parts: readonly string[]): boolean => parts.length > 0 && parts.every((name) => here.has(name));
  const seen = entriesOf(parsed(await readFile(join(folder, 'list.json'), 'utf8').catch(() => '')));
  const names = [seen, asFiles(here.keys())].map((files) => partsOf(choose(files, repo, wanted)?.path)).find(isHere);
  return names && { folder, names: names.map((name) => here.get(name)!) };
}

/** Keeps the hub's list. Nothing depends on it: a cache may be readable only, and other processes may be at the same. */
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

/** A model of a repository, told by its name or chosen by a quant. */
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

/** Where a model of another server than the hub is kept. */
function urlFolder(store: Pick<ModelStore, 'folder'>, { url, before }: UrlModel): string {
  // Decoded where that cannot make two addresses one.
  const path = (/%2f/i.test(before) ? undefined : decoded(before)) ?? before;
  const address = `${url.origin}${path}${url.search}`;
  return join(store.folder, 'url', createHash('sha256').update(address).digest('hex').slice(0, 16));
}

/** The file of a URL among those that are kept. */
async function keptOfUrl(folder: string, names: readonly string[]): Promise<Kept | undefined> {
  const here = await modelsIn(folder);
  return names.every((name) => here.has(name)) ? { folder, names: names.map((name) => here.get(name)!) } : undefined;
}

/** A model of any server. */
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
 * The path of a model (of a split one its first file), downloaded where it has to be.
 * @throws ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function bring(store: ModelStore, remote: RemoteModel): Promise<string> {
  const { folder, names } = 'repo' in remote ? await repoModel(store, remote.repo, remote.wanted) : await urlModel(store, remote);
  return join(folder, names[0]);
}

/** The files that belong to one of these names: itself, what is known of it, parts of it. */
const belongsTo = (names: readonly string[]): ((file: string) => boolean) => {
  const known = new Set(names);
  return (file) => known.has(file) || known.has(file.replace(/\.json$/, '')) || known.has(partial(file) ?? '');
};

/** All models in a store's folder. */
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

/** The names in the folder of what a source means, whole or not. */
async function namesOf(store: ModelStore, source: string | URL): Promise<Kept | undefined> {
  const path = isRemote(source) ? '' : resolve(String(source));
  if (path.startsWith(store.folder.replace(/[\\/]$/, '') + sep) && isModel(path)) {
    // OWNER/REPO or url/HASH, and the rest.
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
 * Removes a model with all that belongs to it. Returns how many bytes that freed: 0 where it was not there.
 * @throws ERR_INVALID_ARGUMENT, ERR_IO, or signal.reason
 */
export async function removeModel(store: ModelStore, source: string | URL): Promise<number> {
  const found = await namesOf(store, source);
  let freed = 0;
  for (const name of found?.names ?? []) {
    const path = join(found!.folder, name);
    const files = (await readdir(dirname(path)).catch(() => [])).filter(belongsTo([basename(path)]));
    if (files.length === 0) continue;
    const release = await lock(`${path}.lock`, store.signal, () => {}); // a download that is at it ends first
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

/** Removes what no model needs any more: the list of a folder without models, and empty folders up to the store's. */
async function prune(folder: string, top: string): Promise<void> {
  const files = await namesIn(folder);
  if (!files.some((name) => isModel(name) || partial(name) !== undefined))
    for (const name of files) if (/^list\.json(\.[\w-]+)?$/.test(name)) await rm(join(folder, name), { force: true });
  const gone = (path: string): Promise<boolean> =>
    rmdir(path).then(
      () => true,
      () => false, // not empty, or no folder
    );
  for (const inner of files.reverse()) await gone(join(folder, inner));
  for (let at = folder; at !== top && (await gone(at));) at = dirname(at);
}
