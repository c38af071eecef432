import type { LoadProgress } from '../platform.ts';
import { KIND, type Kinds } from '../options.ts';
import type { CreateWorker } from '../web/workers.ts';

/** Options for the Hugging Face hub and the folder of downloaded models. */
export interface HubOptions {
  /**
   * Access token of the hub, for private or gated repositories. It is sent only to the hub. Node,
   * Deno and Bun: default HF_TOKEN.
   */
  token?: string | undefined;
  /**
   * The hub's address. Default `https://huggingface.co`; Node, Deno and Bun: MODEL_ENDPOINT or
   * HF_ENDPOINT.
   */
  endpoint?: string | undefined;
  /**
   * Node, Deno and Bun: folder of downloaded models. Default: QUANTLET_CACHE, or else `quantlet` in
   * the system's cache folder.
   */
  folder?: string | undefined;
  /** Node, Deno and Bun: use only models that were downloaded before; make no request. */
  offline?: boolean | undefined;
}

export interface DownloadOptions extends HubOptions {
  /** Download the model even if it is present. */
  reload?: boolean | undefined;
  /** False: without the projector of the repository, for a model that is to read text only. */
  mmproj?: boolean | undefined;
  /** Headers of the requests. */
  headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Ends the download with signal.reason. The bytes received are kept, and the next download
   * resumes.
   */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Browsers: as in loadModel. */
  createWorker?: CreateWorker | undefined;
}

/** Options of remove(). */
export type RemoveOptions = ListOptions & { signal?: AbortSignal | undefined };

/** A stored model, complete or not. */
export interface KeptModel {
  /** Source of the model, as loadModel, download and remove take it. */
  readonly source: string;
  /** Node, Deno and Bun: path of its file, or of the first file if it is split. */
  readonly path?: string;
  /** Bytes on disk. */
  readonly size: number;
  /** True if all of it is present. The next download resumes an interrupted one. */
  readonly complete: boolean;
}

/** Options of list(): the folder, and the hub. */
export type ListOptions = Pick<HubOptions, 'folder' | 'endpoint'>;

export const HUB_OPTIONS: Kinds<HubOptions> = { token: KIND.string, endpoint: KIND.string, folder: KIND.string, offline: KIND.boolean };
export const DOWNLOAD_OPTIONS: Kinds<DownloadOptions> = {
  ...HUB_OPTIONS,
  reload: KIND.boolean,
  mmproj: KIND.boolean,
  headers: KIND.strings,
  signal: KIND.signal,
  onProgress: KIND.function,
  createWorker: KIND.function,
};
export const LIST_OPTIONS: Kinds<ListOptions> = { folder: KIND.string, endpoint: KIND.string };
export const REMOVE_OPTIONS: Kinds<RemoveOptions> = { ...LIST_OPTIONS, signal: KIND.signal };
