/** quantlet/hub for Node, Deno and Bun: models that were downloaded. */
import { keptModels, removeModel } from '../hub/kept-models.ts';
import { bring, bringWithProjector } from '../hub/model-store.ts';
import {
  DOWNLOAD_OPTIONS,
  LIST_OPTIONS,
  REMOVE_OPTIONS,
  type DownloadOptions,
  type HubOptions,
  type KeptModel,
  type RemoveOptions,
} from '../hub/options.ts';
import { remoteOf } from '../hub/addresses.ts';
import { checkOptions } from '../options.ts';
import { storeFor } from './node-platform.ts';

export type { LoadProgress } from '../platform.ts';
export type { DownloadOptions, HubOptions, KeptModel, ListOptions, RemoveOptions } from '../hub/options.ts';

/**
 * Downloads a model, as loadModel does before it reads it, unless it is already downloaded. Resumes
 * an interrupted download, and checks size and SHA-256. If several processes want the same file,
 * one downloads it. With `hf:`, the projector of the repository is downloaded too.
 * @param source URL, `hf:OWNER/REPO[:QUANT]` or `hf:OWNER/REPO/FILE.gguf`
 * @returns path of its file; for a split model, of the first file
 * @throws QuantletError ERR_DOWNLOAD, ERR_IO, ERR_INVALID_ARGUMENT, or signal.reason
 */
export async function download(source: string | URL, options?: DownloadOptions): Promise<string> {
  const {
    reload = false,
    mmproj = true,
    headers,
    signal,
    onProgress,
    createWorker: _,
    ...hub
  } = checkOptions('download', options, DOWNLOAD_OPTIONS);
  const store = storeFor({ hub, headers, signal, onProgress, ...(reload ? { cache: 'reload' as const } : {}) });
  const { path, projector } = await bringWithProjector(store, source, 'the source');
  if (projector && mmproj) await bring(store, remoteOf(projector, store, 'the projector'));
  return path;
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
