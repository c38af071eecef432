/** quantlet/hub for pages: models that the browser has cached. */
import { QuantletError } from '../errors.ts';
import {
  DOWNLOAD_OPTIONS,
  LIST_OPTIONS,
  REMOVE_OPTIONS,
  type DownloadOptions,
  type KeptModel,
  type RemoveOptions,
} from '../hub/options.ts';
import { remoteOf, type RemoteModel } from '../hub/addresses.ts';
import { choose, partsOf } from '../hub/choose-file.ts';
import { hubFor, locate } from '../hub/locate.ts';
import { namesOfUrl } from '../io/open-url.ts';
import { checkOptions } from '../options.ts';
import { keptFiles, removeFile, type KeptFile } from '../web/kept.ts';
import { absolute, openSource } from '../web/source.ts';
import { startWorker } from '../web/workers.ts';

export type { LoadProgress } from '../platform.ts';
export type { DownloadOptions, HubOptions, KeptModel, ListOptions, RemoveOptions } from '../hub/options.ts';

/** Bytes of one read. */
const PIECE = 4 << 20;

/** URLs of all files of a model, from the URL of any of them. */
function partsOfUrl(url: URL): readonly URL[] {
  const at = url.pathname.lastIndexOf('/') + 1;
  const names = partsOf(decodeURIComponent(url.pathname.slice(at)));
  return names.map((name) => Object.assign(new URL(url), { pathname: url.pathname.slice(0, at) + encodeURIComponent(name) }));
}

/**
 * Downloads a model, as loadModel does while it reads it, unless it is cached. Resumes an
 * interrupted download. With `hf:`, the projector of the repository is downloaded too.
 * @param source URL (relative to the page), `hf:OWNER/REPO[:QUANT]` or `hf:OWNER/REPO/FILE.gguf`
 * @returns URL of its (first) file
 * @throws QuantletError ERR_DOWNLOAD, ERR_IO if the browser does not store it,
 * ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function download(source: string | URL, options?: DownloadOptions): Promise<string> {
  const { mmproj = true, headers, signal, ...rest } = checkOptions('download', options, DOWNLOAD_OPTIONS);
  const { reload: _, onProgress: __, createWorker: ___, ...hub } = rest;
  const { url, headers: all, projector } = await locate(hubFor({ hub, ...(headers ? { headers } : {}), signal }), absolute(source));
  const parts = partsOfUrl(url);
  await storeFiles([...parts, ...(projector && mmproj ? [projector] : [])], { ...rest, signal, headers: all });
  return parts[0].href;
}

/** Stores files that are not stored yet, one after the other. */
async function storeFiles(
  files: readonly URL[],
  { reload = false, headers, signal, onProgress, createWorker }: DownloadOptions,
): Promise<void> {
  for (const part of files) {
    const { name: file } = namesOfUrl(part);
    if (!reload && (await keptFiles()).some((kept) => kept.url === part.href && kept.complete)) continue;
    const { bytes, close } = await openSource(part, {
      headers,
      cache: reload ? 'reload' : true,
      signal,
      start: () => startWorker(createWorker),
    });
    try {
      const { byteLength: total } = bytes;
      for (let loaded = 0; loaded < total;) {
        const to = Math.min(total, loaded + PIECE);
        await bytes.read(loaded, to, signal);
        loaded = to;
        onProgress?.({ phase: 'download', loaded, total, file: decodeURIComponent(file.slice(file.lastIndexOf('/') + 1)) });
      }
    } finally {
      await close();
    }
  }
  const kept = new Set((await keptFiles()).filter(({ complete }) => complete).map((one) => one.url));
  const missing = files.find(({ href }) => !kept.has(href));
  if (missing)
    throw new QuantletError(
      'ERR_IO',
      `${missing.href} was downloaded, but this browser did not store it: there is no space, storage is turned off, or another tab is loading it`,
    );
}

/** The cached files of a model. `first` is the URL of its first file. */
interface Group {
  readonly first: URL;
  readonly files: readonly KeptFile[];
  readonly count: number;
}

async function groups(): Promise<Group[]> {
  const byFirst = new Map<string, { first: URL; count: number; files: KeptFile[] }>();
  for (const file of await keptFiles()) {
    const parts = partsOfUrl(new URL(file.url));
    const group = byFirst.get(parts[0].href) ?? { first: parts[0], count: parts.length, files: [] };
    group.files.push(file);
    byFirst.set(parts[0].href, group);
  }
  return [...byFirst.values()];
}

/** Cached models, including incomplete downloads. */
export async function list(options?: Pick<DownloadOptions, 'endpoint'>): Promise<KeptModel[]> {
  const { endpoint } = checkOptions('list', options, LIST_OPTIONS);
  const hub = hubFor(endpoint === undefined ? {} : { hub: { endpoint } });
  return (await groups()).map(({ first, files, count }) => {
    const remote = remoteOf(first, hub, 'the source');
    const ofHub = 'repo' in remote && remote.repo.revision === 'main' && 'file' in remote.wanted;
    return {
      source: ofHub ? `hf:${remote.repo.name}/${(remote.wanted as { file: string }).file}` : first.href,
      size: files.reduce((sum, { there }) => sum + there, 0),
      complete: new Set(files.filter(({ complete }) => complete).map(({ url }) => url)).size === count,
    };
  });
}

/**
 * Removes a cached model, also if its download is incomplete.
 * @param source as for download(), or its `source` in list()
 * @returns bytes freed, 0 if it was not cached
 * @throws QuantletError ERR_BUSY while it is being loaded, ERR_INVALID_ARGUMENT
 */
export async function remove(source: string | URL, options?: RemoveOptions): Promise<number> {
  const { endpoint } = checkOptions('remove', options, REMOVE_OPTIONS);
  const hub = hubFor(endpoint === undefined ? {} : { hub: { endpoint } });
  const wanted = remoteOf(absolute(source), hub, 'the source');
  const all = (await groups()).map((group) => ({ ...group, remote: remoteOf(group.first, hub, 'the source') }));
  const found = 'repo' in wanted ? ofRepo(all, wanted) : all.find(({ first }) => first.href === partsOfUrl(wanted.url)[0].href);
  let freed = 0;
  for (const file of found?.files ?? []) {
    if (!(await removeFile(file)))
      throw new QuantletError('ERR_BUSY', `${file.url} is being loaded, here or in another tab; remove it after that`);
    freed += file.there;
  }
  return freed;
}

/** Finds the cached model that a repository's name, quant or file refers to. */
function ofRepo<G extends { readonly remote: RemoteModel }>(
  all: readonly G[],
  { repo, wanted }: Extract<RemoteModel, { repo: unknown }>,
): G | undefined {
  const same = all.flatMap((group) => {
    const { remote } = group;
    return 'repo' in remote && 'file' in remote.wanted && remote.repo.name === repo.name && remote.repo.revision === repo.revision
      ? [{ group, path: remote.wanted.file }]
      : [];
  });
  return choose(same, repo, 'file' in wanted ? { file: partsOf(wanted.file)[0] } : wanted)?.group;
}
