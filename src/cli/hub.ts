/** Resolves `-m` and `-hf` to a path, a URL or a file of a hub repository. */
import { bring, bringRepo, bringWithProjector, createStore, type Brought, type Environment } from '../hub/model-store.ts';
import { checkedPath } from '../hub/names.ts';
import { isRemote, parseRepo, remoteOf } from '../hub/addresses.ts';
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

/** Files that flags name, as local paths. */
interface Resolved {
  readonly model: string | undefined;
  readonly mmproj: string | undefined;
}

/**
 * The local path of the model that the flags name, after a download if needed; undefined if they
 * name none.
 * @throws ERR_USAGE, ERR_INVALID_ARGUMENT, ERR_DOWNLOAD, ERR_IO, or signal.reason
 */
export const resolveModel = async (values: HubFlags, signal: AbortSignal, env: Environment = process.env): Promise<string | undefined> =>
  (await resolveFiles({ ...values, mmproj: undefined, mmprojAuto: false }, signal, env)).model;

/**
 * Likewise, with the projector: the named one, or with `mmprojAuto` the one in the model's
 * repository. The command decides what --mmproj-auto is by default.
 * @throws as resolveModel
 */
export async function resolveFiles(
  values: HubFlags & { readonly mmproj?: string | undefined; readonly mmprojAuto?: boolean | undefined },
  signal: AbortSignal,
  env: Environment = process.env,
): Promise<Resolved> {
  const { model, hf, hfFile, hfToken, offline, mmproj, mmprojAuto = false } = values;
  if (model !== undefined && hf !== undefined)
    throw usage('-m and -hf both name a model; expected one of them (-hff names a file of the repository)');
  if (hfFile !== undefined && hf === undefined) throw usage('-hff names a file of a repository; give the repository with -hf');
  if (hf === undefined && !isRemote(model) && !isRemote(mmproj)) return { model, mmproj };
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
  const local = (path: string | undefined, what: string): Promise<string | undefined> =>
    isRemote(path) ? bring(store, remoteOf(path, store, what)) : Promise.resolve(path);
  const found = hf === undefined ? (isRemote(model) ? await bringWithProjector(store, model, '-m') : undefined) : await ofRepo(hf, hfFile);
  if (mmproj !== undefined || !mmprojAuto || !found?.projector)
    return { model: found?.path ?? model, mmproj: await local(mmproj, '--mmproj') };
  return { model: found.path, mmproj: await local(found.projector.href, '--mmproj') };

  function ofRepo(text: string, file: string | undefined): Promise<Brought> {
    const { repo, wanted } = parseRepo(text, '-hf', store.endpoint);
    return bringRepo(store, repo, file === undefined ? wanted : { file: checkedPath(file) });
  }
}
