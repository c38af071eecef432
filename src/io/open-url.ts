/** A file over HTTP that is read as it is needed and kept nowhere. */
import type { OpenedFile } from '../engine/platform.ts';
import { openHttp, type HttpOptions } from './http.ts';
import { createReadThrough } from './read-through.ts';

/** What a URL is called, and how the files beside it are: the query, a signature say, goes with them. */
export const namesOfUrl = (url: URL): Required<Pick<OpenedFile, 'name' | 'sibling'>> => ({
  name: url.origin + url.pathname,
  sibling: (part) => Object.assign(new URL(part), { search: url.search }),
});

/** How a repository of the hub is written, for a path that is not there and looks like one; '' for others. */
export const repoHint = (path: string): string =>
  /^[\w-][\w.-]*\/[\w.-]+(?:\/[^/]+\.gguf|:[\w.-]+)?$/i.test(path) && !/^[^/]+\/[^/]+\.gguf$/i.test(path)
    ? `; a repository of the Hugging Face hub is written hf:${path}`
    : '';

/** @throws ERR_DOWNLOAD, or signal.reason */
export async function openUrl(url: URL, options: HttpOptions): Promise<OpenedFile> {
  const { bytes, close } = await createReadThrough(await openHttp(url.href, 0, options));
  return { bytes, ...namesOfUrl(url), close };
}
