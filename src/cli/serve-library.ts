/**
 * The files of a server's models: those of the command line, and those of the cache folder with the
 * further names that clients gave them.
 */
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRecord } from '../chat/json.ts';
import { QuantletError } from '../errors.ts';
import { helperKind } from '../hub/helper-files.ts';
import { keptModels, removeModel } from '../hub/kept-models.ts';
import { bring, bringRepo, createStore, keptProjector, type ModelStore } from '../hub/model-store.ts';
import { replace } from '../hub/replace.ts';
import { parseRepo, remoteOf } from '../hub/addresses.ts';
import { parsed } from '../hub/requests.ts';
import type { Model } from '../model.ts';
import { FTYPES } from '../quantize/ftype.ts';
import { HttpError } from '../server/http/http-error.ts';
import type { ModelDescription, ModelLibrary, PullProgress } from '../server/library.ts';
import type { ModelEntry } from '../server/models.ts';
import { createQueue } from '../server/queue.ts';
import { openHeader } from './command.ts';
import { weightsOf } from './inspect.ts';

/** A model of the cache folder. */
interface Kept {
  readonly id: string;
  /** `hf:OWNER/REPO/FILE` */
  readonly source: string;
  readonly path: string;
  readonly size: number;
}

/** Kinds of files in their names. */
const QUANT = /(?:^|[-._/])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|F16|F32|MXFP4(?:_MOE)?))(?=[-.]|$)/gi;

/**
 * The models of the cache folder. A model is named `hf.co/OWNER/REPO:QUANT`, as in Ollama. If its
 * file's name has no quant, or another one has that name, its file stands in place of the quant.
 */
export async function cachedModels(store: Pick<ModelStore, 'folder'>): Promise<readonly Kept[]> {
  const taken = new Set<string>();
  return (await keptModels(store)).flatMap(({ source, path, size, complete }) => {
    const [, repo, file] = /^hf:([^/]+\/[^/]+)\/(.+)$/.exec(source) ?? [];
    if (repo === undefined || !complete || helperKind(file, repo) !== undefined) return [];
    const [, quant] = [...file.replace(/(?:-\d{5}-of-\d{5})?\.gguf$/i, '').matchAll(QUANT)].at(-1) ?? [];
    const short = `hf.co/${repo}:${quant ?? ''}`;
    const id = quant === undefined || taken.has(short) ? `hf.co/${repo}/${file}` : short;
    taken.add(id);
    return [{ id, source, path: path!, size }];
  });
}

/** Describes a file from its header. */
async function describe(path: string): Promise<ModelDescription | undefined> {
  const { mtime } = await stat(path);
  const gguf = await openHeader(path);
  const kind = gguf.metadata.get('general.file_type');
  return {
    bytes: gguf.byteLength,
    modified: mtime,
    parameters: weightsOf(gguf),
    quantization: FTYPES.find(({ id }) => id === kind)?.name,
    metadata: gguf.metadata,
  };
}

/** Further names of models in the cache folder, and the sources that they mean. */
type Names = Readonly<Record<string, string>>;

const namesFile = (folder: string): string => join(folder, 'names.json');

/**
 * The further names. Without a file of names there are no such names.
 * @throws ERR_IO for a file that cannot be read: writing it again would lose its names
 */
async function readNames(folder: string): Promise<Names> {
  const file = namesFile(folder);
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw new QuantletError('ERR_IO', `cannot read ${file}: ${error.message}`, { cause: error });
  });
  const names = parsed(text);
  if (isRecord(names) && Object.values(names).every((source) => typeof source === 'string')) return names as Names;
  throw new QuantletError('ERR_IO', `${file} has no names of models; expected a JSON object of names and sources: mend it, or remove it`);
}

/** Replaces the file of names as a whole: half of it would lose them all. */
async function writeNames(folder: string, names: Names): Promise<void> {
  const mine = `${namesFile(folder)}.${crypto.randomUUID()}`;
  try {
    await writeFile(mine, `${JSON.stringify(names, null, 2)}\n`);
    await replace(mine, namesFile(folder));
  } catch (cause) {
    await rm(mine, { force: true }).catch(() => {});
    throw new QuantletError('ERR_IO', `cannot write ${namesFile(folder)}: ${(cause as Error).message}`, { cause });
  }
}

export interface LibraryOptions {
  readonly token: string | undefined;
  readonly offline: boolean | undefined;
  /** Take the projectors of repositories. Default true. */
  readonly projectors?: boolean;
  /** Loads a file as the model of this name, with a projector. */
  readonly open: (path: string, name: string, mmproj: string | undefined) => Promise<Model>;
  /** Ends downloads. */
  readonly signal: AbortSignal;
}

/** Downloads at the same time, and requests that may wait for them, or for another change. */
const PULLS = 2;
const WAITING = 16;

/** The models of a server by name, with the functions that change them. */
export class Library {
  /** Paths by name of a model. Names of the command line come first. */
  readonly #paths = new Map<string, string>();
  /** Sources by name, for models of the cache folder. */
  readonly #sources = new Map<string, string>();
  readonly #described = new Map<string, Promise<ModelDescription | undefined>>();
  readonly #pulls = createQueue(PULLS, WAITING);
  /** Changes of the file of names, one after another. */
  readonly #changes = createQueue(1, WAITING);
  readonly #options: LibraryOptions;

  constructor(options: LibraryOptions) {
    this.#options = options;
  }

  /** Adds a model of the command line. */
  addFile(id: string, path: string): void {
    this.#paths.set(id, path);
  }

  /** The entries of the models in the cache folder, and of their further names. */
  async cached(): Promise<readonly ModelEntry[]> {
    const { folder } = this.#store();
    const kept = await cachedModels({ folder });
    const named = Object.entries(await readNames(folder)).flatMap(([id, source]) => {
      const one = kept.find((model) => model.source === source);
      return one ? [{ ...one, id }] : [];
    });
    return [...kept, ...named].filter(({ id }) => !this.#paths.has(id) || this.#sources.has(id)).map((model) => this.#entry(model));
  }

  /** For createHandler. With `changes`, clients may change the list of models. */
  forHandler(changes: boolean): ModelLibrary {
    const describes = { describe: (id: string) => this.#describe(id) };
    if (!changes) return describes;
    return {
      ...describes,
      pull: (name, signal, onProgress) => this.#pull(name, signal, onProgress),
      copy: (id, name) => this.#alone(() => this.#copy(id, name)),
      remove: (id, release) => this.#alone(() => this.#remove(id, release)),
    };
  }

  #store(signal = this.#options.signal, onProgress?: (progress: PullProgress) => void): ModelStore {
    const { token, offline } = this.#options;
    return createStore({
      token,
      offline,
      signal,
      names: { token: '--hf-token or HF_TOKEN', offline: '--offline' },
      progress: (file, sha256) => ({
        set: (loaded, total) => onProgress?.({ file, sha256, loaded, total }),
        waiting() {},
        end() {},
      }),
      warn: (message) => void process.stderr.write(`quantlet: ${message}\n`),
    });
  }

  #entry({ id, path, source, size }: Kept): ModelEntry {
    this.#paths.set(id, path);
    this.#sources.set(id, source);
    this.#described.delete(id);
    return { id, bytes: size, load: async () => this.#options.open(path, id, await this.#projectorOf(source)) };
  }

  #takesProjectors(): boolean {
    return this.#options.projectors ?? true;
  }

  /** The projector of a model, if it is downloaded. */
  async #projectorOf(source: string): Promise<string | undefined> {
    if (!this.#takesProjectors()) return undefined;
    const { repo, wanted } = parseRepo(source.slice(3), 'the source');
    return keptProjector(this.#store(), repo, wanted);
  }

  #describe(id: string): Promise<ModelDescription | undefined> {
    const path = this.#paths.get(id);
    if (path === undefined || /^https?:/i.test(path)) return Promise.resolve(undefined);
    // A list must not fail because one of its files cannot be read.
    const described = this.#described.get(id) ?? describe(path).catch(() => undefined);
    this.#described.set(id, described);
    return described;
  }

  /** Only repositories of the hub: a client must not make the server ask other addresses. */
  async #pull(name: string, signal: AbortSignal, onProgress: (progress: PullProgress) => void): Promise<ModelEntry> {
    const bare = name.replace(/:latest$/, '').replace(/^hf:/i, '');
    if (!bare.includes('/'))
      throw new HttpError(
        400,
        `'model' is ${JSON.stringify(name.slice(0, 200))}; models come from the Hugging Face hub: expected hf.co/OWNER/REPO:QUANT.`,
        {
          param: 'model',
          code: 'invalid_value',
        },
      );
    const store = this.#store(AbortSignal.any([signal, this.#options.signal]), onProgress);
    const remote = parseRepo(bare, 'model', store.endpoint);
    const leave = await this.#pulls.enter(signal);
    try {
      const { path, projector } = await bringRepo(store, remote.repo, remote.wanted);
      if (projector && this.#takesProjectors()) await bring(store, remoteOf(projector, store, 'the projector'));
      const kept = (await cachedModels(store)).find((model) => model.path === path);
      if (kept) return this.#entry(kept);
      throw new HttpError(400, `${bare} is not a language model by its name; expected another file of the repository.`, {
        param: 'model',
        code: 'invalid_value',
      });
    } finally {
      leave();
    }
  }

  /** @throws HttpError 409 for a model of the command line */
  #sourceOf(id: string): string {
    const source = this.#sources.get(id);
    if (source !== undefined) return source;
    throw new HttpError(409, `The model ${JSON.stringify(id)} is one of the command line; expected a downloaded one.`, {
      code: 'not_in_cache',
    });
  }

  async #alone<T>(change: () => Promise<T>): Promise<T> {
    const leave = await this.#changes.enter(this.#options.signal);
    return change().finally(leave);
  }

  async #copy(id: string, name: string): Promise<ModelEntry> {
    const source = this.#sourceOf(id);
    const { folder } = this.#store();
    await writeNames(folder, { ...(await readNames(folder)), [name]: source });
    return this.#entry({ id: name, source, path: this.#paths.get(id)!, size: (await this.#describe(id))?.bytes ?? 0 });
  }

  /** Removes a model, and with the last one of its repository the projector. */
  async #removeFiles(store: ModelStore, source: string): Promise<void> {
    const projector = await this.#projectorOf(source);
    await removeModel(store, source);
    const repo = source.split('/', 2).join('/');
    if (projector !== undefined && !(await cachedModels(store)).some((other) => other.source.startsWith(`${repo}/`)))
      await removeModel(store, projector);
  }

  async #remove(id: string, release: () => Promise<void>): Promise<void> {
    const source = this.#sourceOf(id);
    const store = this.#store();
    const { [id]: further, ...names } = await readNames(store.folder);
    const others = Object.entries(names).flatMap(([name, of]) => (of === source ? [JSON.stringify(name)] : []));
    if (further === undefined && others.length > 0)
      throw new HttpError(409, `The model is also named ${others.join(', ')}; delete these names first.`, { code: 'model_in_use' });
    await release();
    if (further === undefined) await this.#removeFiles(store, source);
    else await writeNames(store.folder, names);
    for (const map of [this.#paths, this.#sources, this.#described]) map.delete(id);
  }
}
