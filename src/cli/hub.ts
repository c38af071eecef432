/** Resolves `-m` and `-hf` to a path, a URL or a file of a hub repository. */
import { bring, createStore, type Environment } from '../hub/model-store.ts';
import { checkedPath } from '../hub/names.ts';
import { isRemote, parseRepo, remoteOf } from '../hub/repository.ts';
import { QuantletError } from '../errors.ts';
import { downloadProgress } from './progress.ts';

export interface HubFlags {
  readonly model?: string;
  readonly hf?: string;
  readonly hfFile?: string;
  readonly hfToken?: string;
  readonly offline?: boolean;
}

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);

/**
 * The local path of the model that the flags name, after a download if needed; undefined if they
 * name none.
 * @throws ERR_USAGE, ERR_INVALID_ARGUMENT, ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export async function resolveModel(values: HubFlags, signal: AbortSignal, env: Environment = process.env): Promise<string | undefined> {
  const { model, hf, hfFile, hfToken, offline } = values;
  if (model !== undefined && hf !== undefined)
    throw usage('-m and -hf both name a model; give one (and a file of the repository with -hff)');
  if (hfFile !== undefined && hf === undefined) throw usage('-hff names a file of a repository; give that with -hf');
  if (hf === undefined && !isRemote(model)) return model;
  const store = createStore(
    {
      token: hfToken,
      offline,
      signal,
      names: { token: '--hf-token or HF_TOKEN', offline: '--offline' },
      progress: downloadProgress,
      warn: (message) => void process.stderr.write(`quantlet: ${message}\n`),
    },
    env,
  );
  if (hf === undefined) return bring(store, remoteOf(model!, store, '-m'));
  const { repo, wanted } = parseRepo(hf, '-hf', store.endpoint);
  return bring(store, { repo, wanted: hfFile === undefined ? wanted : { file: checkedPath(hfFile) } });
}
