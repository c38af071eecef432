/** Options about where models come from. */
import type { LoadProgress } from '../engine/platform.ts';
import { KIND, type Kinds } from '../options.ts';
import type { CreateWorker } from '../web/workers.ts';

/** Where models of the Hugging Face hub come from, and where what is downloaded is kept. */
export interface HubOptions {
  /** Access token of the hub, for repositories that are private or gated; it is sent to the hub alone. Node, Deno and Bun: by default HF_TOKEN. */
  token?: string | undefined;
  /** The hub's address. Default `https://huggingface.co`; Node, Deno and Bun: MODEL_ENDPOINT or HF_ENDPOINT. */
  endpoint?: string | undefined;
  /** Node, Deno and Bun: where models are kept. Default: QUANTLET_CACHE, else `quantlet` in the system's cache folder. */
  folder?: string | undefined;
  /** Node, Deno and Bun: use what was downloaded before, and ask nobody. */
  offline?: boolean | undefined;
}

export interface DownloadOptions extends HubOptions {
  /** Get it again even if it is there. */
  reload?: boolean | undefined;
  /** Headers of the requests. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Ends the download with signal.reason; what came is kept, and the next download goes on. */
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Browsers: as loadModel has it. */
  createWorker?: CreateWorker | undefined;
}

/** The same for remove(). */
export type RemoveOptions = ListOptions & { signal?: AbortSignal | undefined };

/** A model that is kept, whole or not. */
export interface KeptModel {
  /** What loadModel, download and remove take for it. */
  readonly source: string;
  /** Node, Deno and Bun: the path of its file, of a split model of the first. */
  readonly path?: string;
  /** Bytes of what is there. */
  readonly size: number;
  /** Whether all of it is there; a download that was broken off is taken up again by the next. */
  readonly complete: boolean;
}

/** Options of list(): where models are kept, and of which hub. */
export type ListOptions = Pick<HubOptions, 'folder' | 'endpoint'>;

export const HUB_OPTIONS: Kinds<HubOptions> = { token: KIND.string, endpoint: KIND.string, folder: KIND.string, offline: KIND.boolean };
export const DOWNLOAD_OPTIONS: Kinds<DownloadOptions> = {
  ...HUB_OPTIONS,
  reload: KIND.boolean,
  headers: KIND.strings,
  signal: KIND.signal,
  onProgress: KIND.function,
  createWorker: KIND.function,
};
export const LIST_OPTIONS: Kinds<ListOptions> = { folder: KIND.string, endpoint: KIND.string };
export const REMOVE_OPTIONS: Kinds<RemoveOptions> = { ...LIST_OPTIONS, signal: KIND.signal };
