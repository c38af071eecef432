/**
 * Which model `-m` and `-hf` mean: a path, a URL, or a file of a repository of the hub. What comes from the net is kept in a folder:
 *
 *   QUANTLET_CACHE, else quantlet/ in the folder that the system has for such things
 *     OWNER/REPO[@REVISION]/FILE       of the hub
 *     OWNER/REPO[@REVISION]/list.json  the hub's list of its files, when it was last asked
 *     url/HASH/FILE                    of other servers, HASH telling the address's folder
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join, sep } from 'node:path';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { readGGUF } from '../gguf/read.ts';
import { splitCount, splitName, splitNames } from '../gguf/split.ts';
import { download, type Remote } from './download.ts';
import { downloadProgress } from './progress.ts';

export interface HubFlags {
  readonly model?: string;
  readonly hf?: string;
  readonly hfFile?: string;
  readonly hfToken?: string;
  readonly offline?: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A repository, at a revision. */
interface Repo {
  readonly name: string;
  readonly revision: string;
}

interface HubFile {
  readonly path: string;
  readonly size: number;
  readonly sha256?: string | undefined;
}

const HUB = 'https://huggingface.co';
/** Where neither a quant nor a file is asked for. */
const QUANT = 'Q4_K_M';
/** A page of a list of files takes so long at most, and all pages together. */
const PAGE_MS = 30_000, LIST_MS = 120_000;
/** The hub gives 1000 files a page, each some 300 bytes of JSON. */
const MOST_PAGES = 100, MOST_LIST_BYTES = 32 << 20;

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);
const failed = (message: string, cause?: unknown): QuantletError => new QuantletError('ERR_DOWNLOAD', message, { cause });
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** The folder of downloaded models. */
export function cacheFolder(env: Environment, platform: NodeJS.Platform = process.platform): string {
  if (env.QUANTLET_CACHE) return env.QUANTLET_CACHE;
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, 'quantlet');
  if (platform === 'win32') return join(env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), 'quantlet');
  return join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache', 'quantlet');
}

/** The hub's address without a slash at its end: MODEL_ENDPOINT or HF_ENDPOINT take its place. */
const endpointOf = (env: Environment): string => (env.MODEL_ENDPOINT || env.HF_ENDPOINT || HUB).replace(/\/+$/, '');

/** The name of a file and of all it is split in; none of none. */
function partsOf(path: string | undefined): readonly string[] {
  if (path === undefined) return [];
  const folder = path.slice(0, path.length - nameOf(path).length);
  return splitNames(nameOf(path))?.map((name) => folder + name) ?? [path];
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

/** A name from outside becomes a path of this machine: nothing in it may lead elsewhere. */
function checkedPath(path: string): string {
  const bad = path.split('/').some((part) => part === '' || part === '.' || part === '..') || /[\\:\p{Cc}]/u.test(path);
  if (bad) throw failed(`"${path}" is no name for a file of a repository; expected folders and a name, parted by /`);
  return path;
}

/**
 * The file to use where a repository has several: the quant's, the first part where it is split. As llama.cpp chooses: a quant that was
 * asked for must be there; without one Q4_K_M, else the first model. Projectors of images and importance matrices are no models.
 */
export function chooseFile<F extends { readonly path: string }>(files: readonly F[], quant?: string): F | undefined {
  const models = files.filter(({ path }) => {
    const name = nameOf(path).toLowerCase();
    return name.endsWith('.gguf') && !name.includes('mmproj') && !name.includes('imatrix') && (splitName(nameOf(path))?.no ?? 1) === 1;
  });
  const wanted = (quant ?? QUANT).toLowerCase();
  // The quant ends at a dot or a dash, and does not begin inside a word: Q4_0 is not the end of IQ4_0.
  const named = models.find(({ path }) => {
    const text = path.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) if (/[-.]/.test(text[at + wanted.length] ?? '') && !/[a-z0-9]/.test(text[at - 1] ?? '-')) return true;
    return false;
  });
  return named ?? (quant === undefined ? models[0] : undefined);
}

/** What the flags and the environment say about getting models. */
interface Hub {
  readonly endpoint: string;
  readonly folder: string;
  readonly token: string | undefined;
  readonly offline: boolean;
  readonly signal: AbortSignal;
}

/** The hub's token is for the hub alone. */
const headersFor = ({ token, endpoint }: Hub, url: string): Record<string, string> => ({
  'user-agent': 'quantlet',
  ...(token && new URL(url).origin === new URL(endpoint).origin ? { authorization: `Bearer ${token}` } : {}),
});

/** What to do about a status, or about no connection. */
function advice({ token }: Hub, status: number | undefined): string {
  if (status === undefined) return 'no connection; --offline uses what was downloaded before';
  if (status === 401) return token ? 'the token is not valid, or there is no such repository' : 'it is private, gated or not there: give a token of the hub with --hf-token or HF_TOKEN';
  if (status === 403) return token ? 'the token has no right to it: accept the terms of the repository on its page, or use another token' : 'give a token of the hub with --hf-token or HF_TOKEN';
  return status === 404 ? 'there is no such repository or file: check its name' : 'check the address';
}

const get = (hub: Hub, file: Omit<Remote, 'headers'>): Promise<void> =>
  download({ ...file, headers: headersFor(hub, file.url) }, { signal: hub.signal, progress: downloadProgress(basename(file.to)), advice: (status) => advice(hub, status) });

/** The downloaded models in a folder, by their names in it. */
async function storedIn(folder: string): Promise<{ readonly path: string }[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names.filter((name) => /\.gguf$/i.test(name)).sort().map((name) => ({ path: name.replaceAll(sep, '/') }));
}

/** Gets the model at `path`, unless only what is `stored` may be used, or nothing else can be got. */
async function storedOr(hub: Hub, what: string, stored: string | undefined, bring: () => Promise<string>): Promise<string> {
  if (hub.offline) {
    if (stored === undefined) throw failed(`${what} was not downloaded to ${hub.folder} before, and --offline forbids to do it now; run once without --offline`);
    return stored;
  }
  try {
    return await bring();
  } catch (error) {
    hub.signal.throwIfAborted();
    if (stored === undefined || !(error instanceof QuantletError) || error.code !== 'ERR_DOWNLOAD') throw error;
    process.stderr.write(`quantlet: ${error.message}. Using what was downloaded before.\n`);
    return stored;
  }
}

/** An answer's bytes, if they are not too many. */
async function bytesOf(response: Response, most: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > most) return undefined; // leaving the loop ends the connection
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null;

/** An entry of the hub's list; undefined where it is a folder or no entry at all. */
function hubFile(entry: unknown): HubFile | undefined {
  if (!isObject(entry)) return undefined;
  const { type, path, size, lfs } = entry;
  if (type !== 'file' || typeof path !== 'string' || !Number.isSafeInteger(size) || (size as number) < 0) return undefined;
  return { path, size: size as number, sha256: /^[0-9a-f]{64}$/.exec(String(isObject(lfs) ? lfs.oid : ''))?.[0] };
}

/** All files of a repository, as the hub lists them in pages. */
async function listRepo(hub: Hub, { name, revision }: Repo): Promise<HubFile[]> {
  const files: HubFile[] = [], problem = (why: string, cause?: unknown): QuantletError => failed(`cannot list the files of ${name} at ${hub.endpoint}: ${why}`, cause);
  const whole = AbortSignal.any([hub.signal, AbortSignal.timeout(LIST_MS)]);
  let url: string | undefined = `${hub.endpoint}/api/models/${name}/tree/${encodeURIComponent(revision)}?recursive=true`;
  for (let pages = 0, left = MOST_LIST_BYTES; url !== undefined; pages++) {
    if (pages === MOST_PAGES) throw problem(`its list goes on after ${MOST_PAGES} pages (${files.length} files); give the file's address with -m`);
    const broken = (cause: Error): never => {
      hub.signal.throwIfAborted();
      throw problem(`${cause.cause instanceof Error && cause.cause.message !== '' ? cause.cause.message : cause.message} (${advice(hub, undefined)})`, cause);
    };
    const response: Response = await fetch(url, { headers: headersFor(hub, url), signal: AbortSignal.any([whole, AbortSignal.timeout(PAGE_MS)]) }).catch(broken);
    if (!response.ok) {
      void response.body?.cancel().catch(() => {});
      throw problem(`it answered ${response.status}; ${advice(hub, response.status)}`);
    }
    const bytes = await bytesOf(response, left).catch(broken);
    if (bytes === undefined) throw problem(`its list has more than ${MOST_LIST_BYTES} bytes; give the file's address with -m, or is MODEL_ENDPOINT or HF_ENDPOINT no hub?`);
    left -= bytes.length;
    const page = parsed(new TextDecoder().decode(bytes));
    if (!Array.isArray(page)) throw problem(`its answer is no ${page === undefined ? 'JSON' : 'list'}; is MODEL_ENDPOINT or HF_ENDPOINT a hub?`);
    for (const file of page.map(hubFile)) if (file) files.push(file);
    const next: string | undefined = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
    if (next !== undefined && !URL.canParse(next, url)) throw problem(`it names ${JSON.stringify(next)} as the next page of its list, expected an address`);
    url = next === undefined ? undefined : new URL(next, url).href;
  }
  return files;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Of several parts the first is looked into before the others are got: a name may promise parts that there are not. */
async function checkFirstPart(path: string, count: number): Promise<void> {
  if (count === 1) return;
  const { bytes, close } = await platform.open(path);
  try {
    const said = splitCount(await readGGUF(bytes));
    if (said !== count) throw failed(`${basename(path)} says that its model has ${said} ${said === 1 ? 'part' : 'parts'}, its name ${count}: the other parts were not asked for; rename it, or look for the right file`);
  } finally {
    await close();
  }
}

/** A model of a repository, told by its name or chosen by a quant. */
async function repoModel(hub: Hub, repo: Repo, wanted: { readonly file: string } | { readonly quant: string | undefined }): Promise<string> {
  const folder = join(hub.folder, `${repo.name}${repo.revision === 'main' ? '' : `@${repo.revision.replaceAll('/', '-')}`}`), pathOf = (name: string): string => join(folder, name);
  const choose = <F extends { readonly path: string }>(files: readonly F[]): F | undefined => ('file' in wanted ? files.find(({ path }) => path === wanted.file) : chooseFile(files, wanted.quant));
  const what = 'file' in wanted ? wanted.file : `a GGUF model${wanted.quant === undefined ? '' : ` ${wanted.quant}`}`;
  // Chosen from the hub's list as it was last seen, so that the same words mean the same file; else from what is there.
  const here = await storedIn(folder), listed = pathOf('list.json');
  const herePaths = new Set(here.map(({ path }) => path)), isHere = (parts: readonly string[]): boolean => parts.length > 0 && parts.every((name) => herePaths.has(name));
  const list = parsed(await readFile(listed, 'utf8').catch(() => '')), seen = (Array.isArray(list) ? list : []).filter((entry): entry is { path: string } => isObject(entry) && typeof entry.path === 'string');
  const parts = [seen, here].map((files) => partsOf(choose(files)?.path)).find(isHere), stored = parts && pathOf(parts[0]);
  return storedOr(hub, `${what} of ${repo.name}`, stored, async () => {
    const files = await listRepo(hub, repo), names = partsOf(choose(files)?.path);
    const models = files.map(({ path }) => path).filter((path) => /\.gguf$/i.test(path));
    if (names.length === 0) throw failed(`${repo.name} has no ${what.replace(/^a /, '')}; ${models.length > 0 ? `it has ${models.slice(0, 20).join(', ')}${models.length > 20 ? ', ...' : ''}` : 'expected a repository with .gguf files'}`);
    const byPath = new Map(files.map((file) => [file.path, file])), missing = names.find((name) => !byPath.has(name));
    if (missing !== undefined) throw failed(`${repo.name} has no ${missing}, a part of ${names[0]}: the repository is not complete`);
    for (const [i, name] of names.map(checkedPath).entries()) {
      const file = byPath.get(name)!;
      const url = `${hub.endpoint}/${repo.name}/resolve/${encodeURIComponent(repo.revision)}/${name.split('/').map(encodeURIComponent).join('/')}`;
      await get(hub, { url, to: pathOf(name), size: file.size, sha256: file.sha256 });
      if (i === 0) await checkFirstPart(pathOf(name), names.length);
    }
    await writeFile(`${listed}.${process.pid}`, JSON.stringify(files)).then(() => rename(`${listed}.${process.pid}`, listed), () => {}); // a cache that may only be read will do: the list is not kept then
    return pathOf(names[0]);
  });
}

/** A model of any server. Of the hub's own addresses the repository's list tells size and hash. */
async function urlModel(hub: Hub, text: string): Promise<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined, path = url && decoded(url.pathname);
  if (!url || !path || path.endsWith('/')) throw usage(`-m is "${text}"; expected the address of a file`);
  const base = new URL(`${hub.endpoint}/`);
  const onHub = url.origin === base.origin && path.startsWith(base.pathname) ? /^([^/]+\/[^/]+)\/(?:resolve|blob|raw)\/([^/]+)\/(.+)$/.exec(path.slice(base.pathname.length)) : null;
  if (onHub) return repoModel(hub, checkedRepo(onHub[1], onHub[2]), { file: checkedPath(onHub[3]) });
  const at = path.lastIndexOf('/') + 1, names = partsOf(checkedPath(path.slice(at)));
  const folder = join(hub.folder, 'url', createHash('sha256').update(`${url.origin}${path.slice(0, at)}${url.search}`).digest('hex').slice(0, 16));
  const here = await storedIn(folder), herePaths = new Set(here.map((file) => file.path)), stored = names.every((name) => herePaths.has(name)) ? join(folder, names[0]) : undefined;
  return storedOr(hub, names[0], stored, async () => {
    for (const [i, name] of names.entries()) {
      const part = new URL(url);
      part.pathname = path.slice(0, at) + encodeURIComponent(name);
      await get(hub, { url: part.href, to: join(folder, name) });
      if (i === 0) await checkFirstPart(join(folder, name), names.length);
    }
    return join(folder, names[0]);
  });
}

function checkedRepo(name: string, revision: string): Repo {
  if (!/^[\w.-]+\/[\w.-]+$/.test(name) || name.split('/').some((part) => /^\.+$/.test(part))) throw usage(`-hf is "${name}"; expected OWNER/REPO or OWNER/REPO:QUANT`);
  return { name, revision };
}

/**
 * The path of the model that the flags mean, downloaded where it has to be; undefined where they name none.
 * @throws ERR_USAGE, ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function resolveModel(values: HubFlags, signal: AbortSignal, env: Environment = process.env): Promise<string | undefined> {
  const { model, hf, hfFile } = values;
  if (model !== undefined && hf !== undefined) throw usage('-m and -hf both name a model; give one (and a file of the repository with -hff)');
  if (hfFile !== undefined && hf === undefined) throw usage('-hff names a file of a repository; give that with -hf');
  const hub: Hub = { endpoint: endpointOf(env), folder: cacheFolder(env), token: values.hfToken ?? env.HF_TOKEN, offline: values.offline ?? false, signal };
  if (hf !== undefined) {
    const colon = hf.indexOf(':');
    const repo = checkedRepo(colon < 0 ? hf : hf.slice(0, colon), 'main'), quant = colon < 0 ? undefined : hf.slice(colon + 1);
    if (quant === '') throw usage(`-hf is "${hf}"; expected a quant after the colon: Q4_K_M, say`);
    return repoModel(hub, repo, hfFile === undefined ? { quant } : { file: checkedPath(hfFile) });
  }
  return model !== undefined && /^https?:\/\//i.test(model) ? urlModel(hub, model) : model;
}
