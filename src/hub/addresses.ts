/**
 * Names and addresses of models on the net: what users write becomes a file of a repository, or a
 * URL.
 */
import { QuantletError } from '../errors.ts';
import { checkedPath, whyNoName } from './names.ts';
import { HUB, type Hub, type Repo, type Wanted } from './repository.ts';

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
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is "${text}"; expected a quantisation after the colon, like Q4_K_M`);
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
      `${what} is "${text}"; expected an https URL, hf:OWNER/REPO, hf:OWNER/REPO:QUANT or hf:OWNER/REPO/FILE.gguf`,
    );
  const url = new URL(text);
  return addressed(url, endpoint, what) ?? { url, ...fileOf(url, what) };
}

/**
 * True if a source asks for a model of the hub together with its projector: a repository, or a file
 * of one by `hf:`. An address of a file is that file alone.
 */
export const takesProjector = (source: string | URL, remote: RemoteModel): boolean =>
  'repo' in remote && (/^hf:/i.test(String(source)) || 'quant' in remote.wanted);

/** The address of a repository's file. */
export const fileUrl = ({ endpoint }: Hub, { name, revision }: Repo, path: string): string =>
  `${endpoint}/${name}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`;
