/** Requests to the hub: their headers, advice for failures, and the list of a repository's files. */
import type { QuantletError } from '../errors.ts';
import { unfetchable } from '../io/fetchable.ts';
import { fetchPatiently } from '../io/http-retry.ts';
import { failed, type Hub, type HubFile, type Repo } from './repository.ts';

/**
 * Time limits: for one page of a list of files, and for all pages including the waits between
 * tries.
 */
const PAGE_MS = 30_000;
const LIST_MS = 300_000;
/** A page has at most 1000 files of about 300 bytes of JSON each. */
const MOST_PAGES = 100;
const MOST_LIST_BYTES = 32 << 20;

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
 * Lists all files of a repository.
 * @throws ERR_DOWNLOAD, or signal.reason
 */
export function listRepo(hub: Hub, repo: Repo): Promise<readonly HubFile[]> {
  const { lists } = hub;
  const key = `${repo.name}@${repo.revision}`;
  const known = lists?.get(key);
  if (known) return known;
  const list = askForList(hub, repo);
  lists?.set(key, list);
  list.catch(() => lists?.delete(key));
  return list;
}

/** The hub gives a list in pages. */
async function askForList(hub: Hub, { name, revision }: Repo): Promise<HubFile[]> {
  const files: HubFile[] = [];
  const problem = (why: string, cause?: unknown): QuantletError =>
    failed(`cannot list the files of ${name} at ${hub.endpoint}: ${why}`, cause);
  const whole = AbortSignal.any([...(hub.signal ? [hub.signal] : []), AbortSignal.timeout(LIST_MS)]);
  let url: string | undefined = `${hub.endpoint}/api/models/${name}/tree/${encodeURIComponent(revision)}?recursive=true`;
  for (let pages = 0, left = MOST_LIST_BYTES; url !== undefined; pages++) {
    if (pages === MOST_PAGES)
      throw problem(`its list has more than ${MOST_PAGES} pages (${files.length} files); give the file's address instead`);
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
      throw problem(`it names ${JSON.stringify(next)} as the next page of its list; expected an address`);
    url = next === undefined ? undefined : new URL(next, url).href;
  }
  return files;
}
