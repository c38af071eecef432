/** quantlet/hub for Node, Deno and Bun: models that were downloaded. */
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
 * Downloads a model, as loadModel does before it reads it, unless it is already downloaded. Resumes
 * an interrupted download, and checks size and SHA-256. If several processes want the same file,
 * one downloads it.
 * @param source URL, `hf:OWNER/REPO[:QUANT]` or `hf:OWNER/REPO/FILE.gguf`
 * @returns path of its file; for a split model, of the first file
 * @throws QuantletError ERR_DOWNLOAD, ERR_IO, ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function download(source: string | URL, options?: DownloadOptions): Promise<string> {
  const { reload = false, headers, signal, onProgress, createWorker: _, ...hub } = checkOptions('download', options, DOWNLOAD_OPTIONS);
  const store = storeFor({ hub, headers, signal, onProgress, ...(reload ? { cache: 'reload' as const } : {}) });
  return bring(store, remoteOf(source, store, 'the source'));
}

/** Downloaded models, including incomplete downloads. */
export async function list(options?: Pick<HubOptions, 'folder'>): Promise<KeptModel[]> {
  return keptModels(storeFor({ hub: checkOptions('list', options, LIST_OPTIONS) }));
}

/**
 * Removes a downloaded model, also if its download is incomplete.
 * @param source as for download(), or its `source` or `path` in list()
 * @returns bytes freed, 0 if it was not there
 * @throws QuantletError ERR_IO, ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function remove(source: string | URL, options?: RemoveOptions): Promise<number> {
  const { signal, ...hub } = checkOptions('remove', options, REMOVE_OPTIONS);
  return removeModel(storeFor({ hub, signal }), source);
}
