/** The address of a model on the hub, for platforms without an environment and a cache folder. */
import { fileUrl, parseRepo } from './addresses.ts';
import { chooseProjector, filesOf } from './choose-file.ts';
import { headersFor, listRepo } from './requests.ts';
import type { HubOptions } from './options.ts';
import { HUB, withoutSlash, type Hub } from './repository.ts';

/** The hub as set in loadModel's options. */
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

/** A model that was found. */
export interface Located {
  /** Address of its file; of the first part if it is split. */
  readonly url: URL;
  /** Headers for the request. */
  readonly headers: Record<string, string>;
  /** Address of its projector in the same repository. */
  readonly projector?: URL;
}

/**
 * Finds a model, and the projector of a repository.
 * @throws ERR_INVALID_ARGUMENT, ERR_DOWNLOAD, or signal.reason
 */
export async function locate(hub: Hub, source: string | URL): Promise<Located> {
  const text = String(source);
  if (!/^hf:/i.test(text)) return { url: new URL(text), headers: headersFor(hub, text) };
  const { repo, wanted } = parseRepo(text.slice(3), 'the source');
  const files = await listRepo(hub, repo);
  const [{ path }] = filesOf(files, repo, wanted);
  const projector = chooseProjector(files, path);
  const url = fileUrl(hub, repo, path);
  return {
    url: new URL(url),
    headers: headersFor(hub, url),
    ...(projector ? { projector: new URL(fileUrl(hub, repo, projector.path)) } : {}),
  };
}
