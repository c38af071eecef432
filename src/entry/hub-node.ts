/** quantlet/hub for Node, Deno and Bun: the models that were downloaded. */
import { bring, keptModels, removeModel } from '../hub/model-store.ts';
import {
  DOWNLOAD_OPTIONS,
  LIST_OPTIONS,
  REMOVE_OPTIONS,
  type DownloadOptions,
  type HubOptions,
  type KeptModel,
  type RemoveOptions,
} from '../hub/options.ts';
import { remoteOf } from '../hub/repository.ts';
import { checkOptions } from '../options.ts';
import { storeFor } from './node-platform.ts';

export type { LoadProgress } from '../engine/platform.ts';
export type { DownloadOptions, HubOptions, KeptModel, ListOptions, RemoveOptions } from '../hub/options.ts';

/**
 * Brings a model, as loadModel does before it reads it, unless it is there already: taken up where an earlier download broke off, checked by its size and SHA-256.
 * Of processes that want the same file one downloads it.
 * @param source `hf:OWNER/REPO[:QUANT]` or `hf:OWNER/REPO/FILE.gguf`, or a URL
 * @returns the path of its file, of a split model of the first
 * @throws QuantletError ERR_DOWNLOAD, ERR_IO, ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function download(source: string | URL, options?: DownloadOptions): Promise<string> {
  const { reload = false, headers, signal, onProgress, createWorker: _, ...hub } = checkOptions('download', options, DOWNLOAD_OPTIONS);
  const store = storeFor({ hub, headers, signal, onProgress, ...(reload ? { cache: 'reload' as const } : {}) });
  return bring(store, remoteOf(source, store, 'the source'));
}

/** The models that are kept, those included whose download broke off. */
export async function list(options?: Pick<HubOptions, 'folder'>): Promise<KeptModel[]> {
  return keptModels(storeFor({ hub: checkOptions('list', options, LIST_OPTIONS) }));
}

/**
 * Removes a model that is kept, all its parts and what is there of a broken download.
 * @param source what it was downloaded by, or its `source` or `path` in list()
 * @returns bytes that this freed; 0 where it was not there
 * @throws QuantletError ERR_IO, ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function remove(source: string | URL, options?: RemoveOptions): Promise<number> {
  const { signal, ...hub } = checkOptions('remove', options, REMOVE_OPTIONS);
  return removeModel(storeFor({ hub, signal }), source);
}
