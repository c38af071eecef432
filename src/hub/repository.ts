/**
 * Repositories of the Hugging Face hub, or of a server with the same interface: parses names of
 * models, chooses the file of a repository, and gives its address. This module does not use a file
 * system.
 */
import { QuantletError } from '../errors.ts';
import type { HubOptions } from './options.ts';
import { splitName, splitNames } from '../gguf/split.ts';
import { unfetchable } from '../io/fetchable.ts';
import { fetchPatiently } from '../io/http-retry.ts';
import { helperKind } from './helper-files.ts';
import { checkedPath, whyNoName } from './names.ts';

/** A repository, at a revision. */
export interface Repo {
  /** OWNER/REPO */
  readonly name: string;
  readonly revision: string;
}

/**
 * The wanted model of a repository: the file of this name, or one of this quant (undefined: Q4_K_M,
 * else Q8_0, else the first).
 */
export type Wanted = { readonly file: string } | { readonly quant: string | undefined };

/** A file as the hub lists it. */
export interface HubFile {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256?: string | undefined;
}

/** Settings for requests to the hub. */
export interface Hub {
  /** Address without a trailing slash. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /** As in openHttp. */
  readonly retryMs?: number | undefined;
  /** Names, in messages, of the settings of the caller: options, flags or environment variables. */
  readonly names: { readonly token?: string; readonly offline?: string };
}

export const HUB = 'https://huggingface.co';
export const withoutSlash = (address: string): string => address.replace(/\/+$/, '');
/**
 * Quants to look for, in this order, if neither a quant nor a file is requested, as in llama.cpp.
 */
const QUANTS = ['Q4_K_M', 'Q8_0'];
/**
 * Time limits: for one page of a list of files, and for all pages including the waits between
 * tries.
 */
const PAGE_MS = 30_000;
const LIST_MS = 300_000;
/** A page has at most 1000 files of about 300 bytes of JSON each. */
const MOST_PAGES = 100;
const MOST_LIST_BYTES = 32 << 20;

export const failed = (message: string, cause?: unknown): QuantletError => new QuantletError('ERR_DOWNLOAD', message, { cause });
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const isModel = (path: string): boolean => /\.gguf$/i.test(path);

/** The names of all parts of a file, in order; empty for undefined. */
export function partsOf(path: string | undefined): readonly string[] {
  if (path === undefined) return [];
  const folder = path.slice(0, path.length - nameOf(path).length);
  return splitNames(nameOf(path))?.map((name) => folder + name) ?? [path];
}

const isRepo = (name: string): boolean => /^[\w.-]+\/[\w.-]+$/.test(name) && name.split('/').every((part) => whyNoName(part) === undefined);

/**
 * Parses `OWNER/REPO`, `OWNER/REPO:QUANT`, `OWNER/REPO/FILE.gguf`, or the address of a repository's
 * page.
 * @param what name of the text in messages
 * @throws ERR_INVALID_ARGUMENT, or ERR_DOWNLOAD for a file name that leads out of its repository
 */
export function parseRepo(text: string, what: string, endpoint = HUB): { readonly repo: Repo; readonly wanted: Wanted } {
  const address = /^(?:huggingface|hf)\.co\//i.test(text) ? `https://${text}` : text;
  const page = /^https?:/i.test(address) && URL.canParse(address) ? addressed(new URL(address), endpoint, what) : undefined;
  if (page) return page;
  const [, name, file, quant] = /^([^/:]+\/[^/:]+)(?:\/(.+\.gguf)|:(.*))?$/is.exec(text) ?? [];
  if (name === undefined || !isRepo(name))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is "${text}"; expected OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO/FILE.gguf`);
  if (quant === '')
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is "${text}"; expected a quant behind the colon, Q4_K_M for instance`);
  return { repo: { name, revision: 'main' }, wanted: file === undefined ? { quant } : { file: checkedPath(file) } };
}

/** The decoded path; undefined for invalid escapes. */
export const decoded = (path: string): string | undefined => {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
};

/**
 * Splits a URL at its file's name: the path before it, still encoded (an encoded slash also ends a
 * folder), and the decoded name.
 * @throws ERR_INVALID_ARGUMENT if it names no file
 */
function fileOf(url: URL, what: string): { readonly before: string; readonly name: string } {
  const [, before, rest] = /^(.*(?:\/|%2f))(.*)$/is.exec(url.pathname) ?? [];
  const name = decoded(rest ?? '');
  if (!name) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is "${url.href}"; expected the address of a file`);
  return { before, name: checkedPath(name) };
}

/**
 * Returns a valid revision of the hub: a branch, tag, commit, or `refs/pr/1`.
 * @throws ERR_INVALID_ARGUMENT
 */
function checkedRevision(revision: string, what: string): string {
  const wrong = revision.split('/').find((part) => whyNoName(part) !== undefined);
  if (wrong === undefined) return revision;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `${what} has the revision ${JSON.stringify(revision)}; expected the name of a branch, tag or commit: ${whyNoName(wrong)!}`,
  );
}

/**
 * The file that an address of the hub (`/resolve/`, `/blob/` or `/raw/`) means; undefined for other
 * servers and other pages. Parts of the address are decoded separately, because an encoded slash
 * belongs to the revision. The hub also takes `refs/pr/1` unencoded.
 */
function repoOf(url: URL, endpoint: string, what: string): { readonly repo: Repo; readonly wanted: { readonly file: string } } | undefined {
  const base = new URL(`${endpoint}/`);
  if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return undefined;
  const parts =
    /^([^/]+\/[^/]+)\/(?:resolve|blob|raw)\/(refs\/(?:pr|convert)\/[^/]+|[^/]+)\/(.+)$/.exec(url.pathname.slice(base.pathname.length)) ??
    [];
  const [name, revision, file] = parts.slice(1).map(decoded);
  if (name === undefined || revision === undefined || file === undefined || !isRepo(name)) return undefined;
  return { repo: { name, revision: checkedRevision(revision, what) }, wanted: { file: checkedPath(file) } };
}

/**
 * The repository that a page of the hub shows: `/OWNER/REPO`, with `:QUANT`, or with its list of
 * files (`/tree/main`).
 */
function pageOf(url: URL, endpoint: string, what: string): { readonly repo: Repo; readonly wanted: Wanted } | undefined {
  const base = new URL(`${endpoint}/`);
  if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return undefined;
  const parts = /^([^/]+\/[^/:]+)(?::([^/]+))?(?:\/tree\/([^/]+))?\/?$/.exec(url.pathname.slice(base.pathname.length)) ?? [];
  const [name, quant, revision = 'main'] = parts.slice(1).map((part) => part && decoded(part));
  if (name === undefined || !isRepo(name) || /\.gguf$/i.test(name)) return undefined;
  return { repo: { name, revision: checkedRevision(revision, what) }, wanted: { quant } };
}

/**
 * The file or repository that an address of the hub means, under any of the hub's host names;
 * undefined for other addresses.
 */
const addressed = (url: URL, endpoint: string, what: string): ReturnType<typeof pageOf> =>
  repoOf(url, endpoint, what) ?? [endpoint, HUB, 'https://hf.co'].map((hub) => pageOf(url, hub, what)).find((page) => page !== undefined);

/** The hub as set in loadModel's options, for platforms without an environment and a folder. */
export const hubFor = (options: {
  readonly hub?: HubOptions;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}): Hub => ({
  endpoint: withoutSlash(options.hub?.endpoint ?? HUB),
  token: options.hub?.token,
  headers: options.headers ?? {},
  signal: options.signal,
  names: { token: 'the option hub.token' },
});

/** A model on the net, as parsed from a source. */
export type RemoteModel =
  | { readonly repo: Repo; readonly wanted: Wanted }
  /** `before`: the path of the address up to the file's name. */
  | { readonly url: URL; readonly before: string; readonly name: string };

/** True for a source on the net: `hf:...`, or an http address. */
export const isRemote = (source: unknown): source is string | URL =>
  (typeof source === 'string' || source instanceof URL) && /^(hf:|https?:\/\/)/i.test(String(source));

/**
 * Parses a source on the net. An address of the hub gives its repository: the hub's list has sizes
 * and hashes.
 * @param what name of the source in messages
 * @throws ERR_INVALID_ARGUMENT if the source is not on the net or names no file
 */
export function remoteOf(source: string | URL, { endpoint }: Pick<Hub, 'endpoint'>, what: string): RemoteModel {
  const text = String(source);
  if (/^hf:/i.test(text)) return parseRepo(text.slice(3), what, endpoint);
  if (!isRemote(text) || !URL.canParse(text))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `${what} is "${text}"; expected an https URL, or hf:OWNER/REPO with :QUANT or /FILE.gguf behind it`,
    );
  const url = new URL(text);
  return addressed(url, endpoint, what) ?? { url, ...fileOf(url, what) };
}

/** The address of a repository's file. */
export const fileUrl = ({ endpoint }: Hub, { name, revision }: Repo, path: string): string =>
  `${endpoint}/${name}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`;

/** The models among the files of a repository; a split model is represented by its first part. */
export const modelsAmong = <F extends { readonly path: string }>(files: readonly F[], repo?: string): readonly F[] =>
  files.filter(({ path }) => isModel(path) && helperKind(path, repo) === undefined && (splitName(nameOf(path))?.no ?? 1) === 1);

/**
 * Chooses a file of a repository by quant, or its first part if it is split, as llama.cpp does. A
 * requested quant must be there. Without a request: Q4_K_M, else Q8_0, else the first model. A
 * quant may also be the name of a folder.
 */
export function chooseFile<F extends { readonly path: string }>(files: readonly F[], quant?: string, repo?: string): F | undefined {
  const models = modelsAmong(files, repo);
  for (const wanted of quant === undefined ? QUANTS : [quant]) {
    const named = models.find(({ path }) => names(path, wanted, /[-.]/)) ?? models.find(({ path }) => names(path, wanted, /\//));
    if (named) return named;
  }
  return quant === undefined ? models[0] : undefined;
}

/**
 * True if a path names a quant. The name must be followed by a character of `end`, and not begin
 * inside a word: IQ4_0 does not name Q4_0.
 */
function names(path: string, quant: string, end: RegExp): boolean {
  const [text, wanted] = [path.toLowerCase(), quant.toLowerCase()];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1))
    if (end.test(text[at + wanted.length] ?? '') && !/[a-z0-9]/.test(text[at - 1] ?? '-')) return true;
  return false;
}

/** Chooses the wanted file of a repository, or its first part if it is split. */
export const choose = <F extends { readonly path: string }>(files: readonly F[], { name }: Repo, wanted: Wanted): F | undefined =>
  'file' in wanted ? files.find(({ path }) => path === wanted.file) : chooseFile(files, wanted.quant, name);

/** Description of the wanted model, for messages. */
export const wantedText = (wanted: Wanted): string =>
  'file' in wanted ? wanted.file : `GGUF model${wanted.quant === undefined ? '' : ` ${wanted.quant}`}`;

/** Headers of a request. The hub's token is sent only to the hub. */
export const headersFor = ({ token, endpoint, headers }: Hub, url: string): Record<string, string> => ({
  ...headers,
  ...(token && new URL(url).origin === new URL(endpoint).origin ? { authorization: `Bearer ${token}` } : {}),
});

/** Advice for an HTTP status, or for a missing connection (undefined). */
export function advice({ token, names }: Hub, status: number | undefined): string {
  if (status === undefined)
    return names.offline === undefined ? 'no connection' : `no connection; ${names.offline} uses what was downloaded before`;
  const tokenAdvice = names.token === undefined ? '' : `: give a token of the hub with ${names.token}`;
  if (status === 401)
    return token ? 'the token is not valid, or there is no such repository' : `it is private, gated or does not exist${tokenAdvice}`;
  if (status === 403)
    return token
      ? 'the token gives no access: accept the terms of the repository on its page, or use another token'
      : `it needs a token${tokenAdvice}`;
  if (status === 429) return 'it was asked too often; try again later, or give a token of the hub';
  if (status >= 500) return 'it is out of order or busy; try again later';
  return status === 404 ? 'there is no such repository or file: check its name' : 'check the address';
}

/** Reads the body of an answer; undefined if it has more than `most` bytes. */
async function bytesOf(response: Response, most: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const reader = response.body?.getReader();
  for (let read; reader && !(read = await reader.read()).done;) {
    length += read.value.length;
    if (length > most) {
      void reader.cancel().catch(() => {});
      return undefined;
    }
    chunks.push(read.value);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null;

/** The entries of a list that name files. Other entries are ignored. */
export const entriesOf = (list: unknown): { readonly path: string }[] =>
  (Array.isArray(list) ? list : []).filter((entry): entry is { path: string } => isObject(entry) && typeof entry.path === 'string');

/** An entry of the hub's list; undefined for a folder or anything else. */
function hubFile(entry: unknown): HubFile | undefined {
  if (!isObject(entry)) return undefined;
  const { type, path, size, lfs } = entry;
  if (type !== 'file' || typeof path !== 'string' || !Number.isSafeInteger(size) || (size as number) < 0) return undefined;
  return { path, size: size as number, sha256: /^[0-9a-f]{64}$/.exec(String(isObject(lfs) ? lfs.oid : ''))?.[0] };
}

/** Parses JSON; undefined if it is invalid. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Lists all files of a repository; the hub gives them in pages.
 * @throws ERR_DOWNLOAD, or signal.reason
 */
export async function listRepo(hub: Hub, { name, revision }: Repo): Promise<HubFile[]> {
  const files: HubFile[] = [];
  const problem = (why: string, cause?: unknown): QuantletError =>
    failed(`cannot list the files of ${name} at ${hub.endpoint}: ${why}`, cause);
  const whole = AbortSignal.any([...(hub.signal ? [hub.signal] : []), AbortSignal.timeout(LIST_MS)]);
  let url: string | undefined = `${hub.endpoint}/api/models/${name}/tree/${encodeURIComponent(revision)}?recursive=true`;
  for (let pages = 0, left = MOST_LIST_BYTES; url !== undefined; pages++) {
    if (pages === MOST_PAGES)
      throw problem(`its list goes on after ${MOST_PAGES} pages (${files.length} files); give the file's address instead`);
    const broken = (cause: Error): never => {
      hub.signal?.throwIfAborted();
      throw problem(
        `${cause.cause instanceof Error && cause.cause.message !== '' ? cause.cause.message : cause.message} (${advice(hub, undefined)})`,
        cause,
      );
    };
    const pageUrl: string = url;
    const refused = unfetchable(pageUrl, headersFor(hub, pageUrl));
    if (refused !== undefined) throw problem(`${refused} (${advice(hub, undefined)})`);
    const response: Response = await fetchPatiently(
      () => fetch(pageUrl, { headers: headersFor(hub, pageUrl), signal: AbortSignal.any([whole, AbortSignal.timeout(PAGE_MS)]) }),
      { signal: whole, retryMs: hub.retryMs },
    ).catch(broken);
    if (!response.ok) {
      void response.body?.cancel().catch(() => {});
      throw problem(`it answered ${response.status}; ${advice(hub, response.status)}`);
    }
    const bytes = await bytesOf(response, left).catch(broken);
    if (bytes === undefined)
      throw problem(`its list has more than ${MOST_LIST_BYTES} bytes; give the file's address instead, or is ${hub.endpoint} no hub?`);
    left -= bytes.length;
    const page = parsed(new TextDecoder().decode(bytes));
    if (!Array.isArray(page)) throw problem(`its answer is not ${page === undefined ? 'JSON' : 'a list'}; is ${hub.endpoint} a hub?`);
    for (const file of page.map(hubFile)) if (file) files.push(file);
    const next: string | undefined = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
    if (next !== undefined && !URL.canParse(next, url))
      throw problem(`it names ${JSON.stringify(next)} as the next page of its list, expected an address`);
    url = next === undefined ? undefined : new URL(next, url).href;
  }
  return files;
}

/**
 * The GGUF files of a repository, for messages. Files that are not models are shown with their
 * kind.
 */
function listed(files: readonly HubFile[], repo: string): string {
  const models = files.map(({ path }) => path).filter(isModel);
  if (models.length === 0) return 'expected a repository with .gguf files';
  const shown = models.slice(0, 20).map((path) => {
    const kind = helperKind(path, repo);
    return kind === undefined ? path : `${path} (by its name ${kind})`;
  });
  const named = modelsAmong(files, repo).length === 0 ? `; to use one of them all the same, name it: hf:${repo}/${models[0]}` : '';
  return `it has ${shown.join(', ')}${models.length > 20 ? ', ...' : ''}${named}`;
}

/**
 * All parts of the wanted model of a repository.
 * @throws ERR_DOWNLOAD if it or one of its parts is missing
 */
export function filesOf(files: readonly HubFile[], repo: Repo, wanted: Wanted): readonly HubFile[] {
  const { name } = repo;
  const names = partsOf(choose(files, repo, wanted)?.path);
  if (names.length === 0) throw failed(`${name} has no ${wantedText(wanted)}; ${listed(files, name)}`);
  const byPath = new Map(files.map((file) => [file.path, file]));
  const missing = names.find((path) => !byPath.has(path));
  if (missing !== undefined) throw failed(`${name} has no ${missing}, a part of ${names[0]}: the repository is not complete`);
  return names.map((path) => byPath.get(checkedPath(path))!);
}

/**
 * The address of a model (of its first part if it is split), and the headers for the request.
 * @throws ERR_INVALID_ARGUMENT, ERR_DOWNLOAD, or signal.reason
 */
export async function locate(hub: Hub, source: string | URL): Promise<{ readonly url: URL; readonly headers: Record<string, string> }> {
  const text = String(source);
  let url = text;
  if (/^hf:/i.test(text)) {
    const { repo, wanted } = parseRepo(text.slice(3), 'the source');
    url = fileUrl(hub, repo, filesOf(await listRepo(hub, repo), repo, wanted)[0].path);
  }
  return { url: new URL(url), headers: headersFor(hub, url) };
}
