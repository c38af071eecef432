/** A file over HTTP that is read on demand and not stored. */
import type { OpenedFile } from '../platform.ts';
import { openHttp, type HttpOptions } from './http.ts';
import { createReadThrough } from './read-through.ts';

/**
 * Name of a URL's file, and names of the files next to it. They keep the URL's query, for example a
 * signature.
 */
export const namesOfUrl = (url: URL): Required<Pick<OpenedFile, 'name' | 'sibling'>> => ({
  name: url.origin + url.pathname,
  sibling: (part) => Object.assign(new URL(part), { search: url.search }),
});

/** Hint for a path that does not exist but looks like a repository of the hub, else ''. */
export const repoHint = (path: string): string =>
  /^[\w-][\w.-]*\/[\w.-]+(?:\/[^/]+\.gguf|:[\w.-]+)?$/i.test(path) && !/^[^/]+\/[^/]+\.gguf$/i.test(path)
    ? `; a repository of the Hugging Face hub is written hf:${path}`
    : '';

/** @throws ERR_DOWNLOAD, or signal.reason */
export async function openUrl(url: URL, options: HttpOptions): Promise<OpenedFile> {
  const { bytes, close } = await createReadThrough(await openHttp(url.href, 0, options));
  return { bytes, ...namesOfUrl(url), close };
}
