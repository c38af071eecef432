/** The models of a handler: one, or several that requests select by name. */
import type { Backend } from './backend.ts';
import { HttpError } from './http/http-error.ts';

/** A model that can be loaded. */
export interface ModelEntry {
  /** Name of the model in requests. */
  readonly id: string;
  /**
   * Expected bytes of memory, as far as known before loading; for example, the size of its file.
   */
  readonly bytes?: number | undefined;
  load(): Promise<LoadedModel>;
}

/** A loaded model, as returned by quantlet's loadModel. */
export interface LoadedModel extends Backend {
  readonly stats?: { readonly memoryBytes: number };
  dispose(): Promise<void>;
}

export interface ModelStatus {
  readonly id: string;
  readonly status: 'unloaded' | 'loading' | 'loaded' | 'failed';
  /** Present if the model is loaded. */
  readonly backend?: Backend;
  /** Bytes of memory that a loaded model takes, if known. */
  readonly bytes?: number;
  /** Time (of Date.now()) at which an unused model will be unloaded, if it was limited by keep(). */
  readonly expires?: number;
}

/** A model in use by a request. */
export interface Lease {
  readonly backend: Backend;
  /** Ends the use: nothing is computed with the model for this request any more. */
  release(): void;
}

/** The models of a handler, one or several. */
export interface Models {
  list(): readonly ModelStatus[];
  /**
   * Leases a model by name, or the first one. Loads it if necessary, which may wait until other
   * models are not in use and can be unloaded.
   * @throws HttpError 404 for an unknown name, 429 if too many requests wait; errors of loading, or
   * signal.reason
   */
  use(id: string | undefined, signal: AbortSignal): Promise<Lease>;
  /**
   * Returns a loaded model without loading or reserving it. Without a name, the one in use or last
   * used. If the model is not loaded but would fit, returns undefined, and use() may load it.
   * @throws HttpError 404 for an unknown name, 503 if another model would have to be unloaded
   */
  look(id: string | undefined): Lease | undefined;
  /**
   * Frees a model's memory.
   * @throws HttpError 404, or 409 while requests use it
   */
  unload(id: string): Promise<void>;
  /**
   * Limits the time for which a model stays loaded after the running requests; Infinity: until its
   * memory is needed. Absent if models are never unloaded.
   */
  keep?(id: string, ms: number): void;
  /** Adds a model to the list. Absent if the list is fixed. */
  add?(entry: ModelEntry): void;
  /**
   * Unloads a model and removes it from the list.
   * @throws HttpError 404, or 409 while requests use it
   */
  drop?(id: string): Promise<void>;
  dispose(): Promise<void>;
}

/** The repository of a name on the hub, in any of the ways to write it. */
const HUB = /^(?:hf:|(?:https:\/\/)?(?:hf|huggingface)\.co\/)/i;

/** A name in the form in which names are compared. Names on the hub ignore case there. */
function plainName(name: string): string {
  const bare = name.replace(/:latest$/, '');
  return bare.includes('/') ? bare.replace(HUB, '').toLowerCase() : bare;
}

/** Quants that a repository's name means without one, in this order. */
const QUANTS = [':q4_k_m', ':q8_0', ':'];

/**
 * The model that a client's name means. `NAME:latest` means NAME, as in Ollama. A model of the hub
 * is listed as `hf.co/OWNER/REPO:QUANT`, and found without the host or the quant too.
 */
export function modelNamed<M extends { readonly id: string }>(models: readonly M[], name: string): M | undefined {
  const exact = models.find(({ id }) => id === name);
  if (exact) return exact;
  const wanted = plainName(name);
  const plain = models.map((model) => [plainName(model.id), model] as const);
  const begins = wanted.includes('/') ? QUANTS.map((quant) => wanted + quant) : [];
  const [, found] =
    plain.find(([id]) => id === wanted) ?? begins.map((begin) => plain.find(([id]) => id.startsWith(begin))).find(Boolean) ?? [];
  return found;
}

/** A single model that serves every name or, with `strict`, only its own name. */
export function oneModel(backend: Backend, strict: boolean): Models {
  const notHere = (id: string): never => {
    throw unknownModel(id, [backend.name]);
  };
  const look = (id: string | undefined): Lease => {
    if (strict && id !== undefined && !modelNamed([{ id: backend.name }], id)) notHere(id);
    return { backend, release: () => undefined };
  };
  return {
    list: () => [{ id: backend.name, status: 'loaded', backend }],
    use: async (id) => look(id),
    look,
    async unload(id) {
      if (!modelNamed([{ id: backend.name }], id)) notHere(id);
      throw new HttpError(409, 'This is the only model, and it is not unloaded. Stop the server.', { code: 'model_in_use' });
    },
    dispose: () => Promise.resolve(),
  };
}

export function unknownModel(id: string, known: readonly string[]): HttpError {
  const some = known.slice(0, 20).map((name) => JSON.stringify(name));
  return new HttpError(
    404,
    `The model ${JSON.stringify(id.slice(0, 200))} does not exist here; expected ${some.join(', ') || 'no model: there is none yet'}${known.length > some.length ? ' ...' : ''}.`,
    { param: 'model', code: 'model_not_found' },
  );
}
