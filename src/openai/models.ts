/** Several models in one handler: loaded on demand, and unloaded if others need their memory. */
import { QuantletError } from '../errors.ts';
import { KIND, checkOptions, required, type Kinds } from '../options.ts';
import type { Backend } from './backend.ts';
import { HttpError } from './http-error.ts';

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

export interface ModelsOptions {
  /** Maximum number of loaded models. Default 4. */
  maxLoaded?: number | undefined;
  /** Maximum bytes of memory of all loaded models. Default: no limit. */
  maxBytes?: number | undefined;
  /** Maximum number of requests that wait for a model to load; more get 429. Default 64. */
  maxWaiting?: number | undefined;
}

const MODEL_ENTRY: Kinds<ModelEntry> = { id: required(KIND.string), bytes: KIND.atLeast0, load: required(KIND.function) };
const MODELS_OPTIONS: Kinds<ModelsOptions> = { maxLoaded: KIND.any, maxBytes: KIND.any, maxWaiting: KIND.count };

export interface ModelStatus {
  readonly id: string;
  readonly status: 'unloaded' | 'loading' | 'loaded' | 'failed';
  /** Present if the model is loaded. */
  readonly backend?: Backend;
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
  dispose(): Promise<void>;
}

/** A single model that serves every name or, with `strict`, only its own name. */
export function oneModel(backend: Backend, strict: boolean): Models {
  const notHere = (id: string): never => {
    throw unknownModel(id, [backend.name]);
  };
  const look = (id: string | undefined): Lease => {
    if (strict && id !== undefined && id !== backend.name) notHere(id);
    return { backend, release: () => undefined };
  };
  return {
    list: () => [{ id: backend.name, status: 'loaded', backend }],
    use: async (id) => look(id),
    look,
    async unload(id) {
      if (id !== backend.name) notHere(id);
      throw new HttpError(409, 'This is the only model, and it is not unloaded. Stop the server.', { code: 'model_in_use' });
    },
    dispose: () => Promise.resolve(),
  };
}

export function unknownModel(id: string, known: readonly string[]): HttpError {
  const some = known.slice(0, 20).map((name) => JSON.stringify(name));
  return new HttpError(
    404,
    `The model ${JSON.stringify(id.slice(0, 200))} does not exist here; expected ${some.join(', ')}${known.length > some.length ? ' ...' : ''}.`,
    { param: 'model', code: 'model_not_found' },
  );
}

/** A model of the list, loaded or not. */
interface Place {
  readonly entry: ModelEntry;
  bytes: number;
  /** Requests that use it, and requests that wait for it. */
  users: number;
  wanted: number;
  /** Time of its last release, by a clock that counts releases. */
  used: number;
  model: LoadedModel | undefined;
  loading: Promise<LoadedModel> | undefined;
  failed: boolean;
}

/**
 * Creates models that are loaded on demand. If there is no room for another model, the least
 * recently used one is unloaded. A model in use stays until its requests are answered. Meanwhile
 * later requests for other models wait for the model that needs the room.
 * @throws QuantletError ERR_INVALID_ARGUMENT for duplicate names or an empty list
 */
export function createModels(entries: readonly ModelEntry[], options?: ModelsOptions): Models {
  const { maxLoaded = 4, maxBytes = Infinity, maxWaiting = 64 } = checkOptions('createModels', options, MODELS_OPTIONS);
  const places = placesOf(entries);
  if (!(maxLoaded >= 1)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxLoaded is ${maxLoaded}; expected a whole number from 1 on`);
  if (!(maxBytes > 0)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxBytes is ${maxBytes}; expected a number of bytes`);
  return new ModelsOnDemand(new Room(places, maxLoaded, maxBytes), maxWaiting);
}

/** @throws QuantletError ERR_INVALID_ARGUMENT for duplicate names or an empty list */
function placesOf(entries: readonly ModelEntry[]): ReadonlyMap<string, Place> {
  const places = new Map<string, Place>();
  for (const entry of entries) {
    checkOptions('createModels: a model', entry, MODEL_ENTRY);
    if (places.has(entry.id))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `two models are called ${JSON.stringify(entry.id)}; expected a name for each`);
    const { bytes = 0 } = entry;
    places.set(entry.id, { entry, bytes, users: 0, wanted: 0, used: 0, model: undefined, loading: undefined, failed: false });
  }
  if (places.size === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'there are no models; expected at least one');
  return places;
}

/** Loads models within the limits of number and memory, one after another. */
class Room {
  readonly places: ReadonlyMap<string, Place>;
  /**
   * A model that waits for room, and the end of its wait. Meanwhile requests for other models wait
   * too.
   */
  needy: { readonly place: Place; readonly over: Promise<void> } | undefined;
  disposed: QuantletError | undefined;
  readonly #maxLoaded: number;
  readonly #maxBytes: number;
  /** The end of the last load that was started. */
  #last: Promise<unknown> = Promise.resolve();
  /** Makes the model that waits for room check again. */
  #wake = (): void => {};

  constructor(places: ReadonlyMap<string, Place>, maxLoaded: number, maxBytes: number) {
    this.places = places;
    this.#maxLoaded = maxLoaded;
    this.#maxBytes = maxBytes;
  }

  wake(): void {
    this.#wake();
  }

  loaded(): Place[] {
    return [...this.places.values()].filter(({ model }) => model !== undefined);
  }

  fits(place: Place): boolean {
    const others = this.loaded();
    return others.length < this.#maxLoaded && others.reduce((sum, { bytes }) => sum + bytes, place.bytes) <= this.#maxBytes;
  }

  /** Loads a model after all earlier loads. */
  load(place: Place): Promise<LoadedModel> {
    if (place.loading) return place.loading;
    const loading = this.#last.then(() => this.#make(place));
    place.loading = loading;
    this.#last = loading
      .then(
        () => (place.failed = false),
        (error: unknown) => (place.failed = !(error instanceof DOMException)),
      )
      .finally(() => (place.loading = undefined));
    return loading;
  }

  async unload(place: Place): Promise<void> {
    const { model } = place;
    place.model = undefined;
    await model?.dispose();
  }

  async dispose(): Promise<void> {
    this.disposed ??= new QuantletError('ERR_DISPOSED', 'the models were disposed of; make new ones');
    this.#wake();
    await this.#last.catch(() => undefined);
    await Promise.all(this.loaded().map((place) => this.unload(place)));
  }

  async #make(place: Place): Promise<LoadedModel> {
    for (;;) {
      await this.#makeRoom(place);
      const model = await place.entry.load();
      model.tokenize('a'); // Builds the tokenizer's tables, so that no request waits for them.
      place.bytes = model.stats?.memoryBytes ?? place.bytes;
      if (!this.disposed && this.fits(place)) return (place.model = model);
      // The model needs more memory than expected, so make room again.
      await model.dispose();
      if (this.disposed) throw this.disposed;
    }
  }

  /** Unloads models until another fits. If all are in use, waits. */
  async #makeRoom(place: Place): Promise<void> {
    let over = (): void => {};
    try {
      while (!this.fits(place)) {
        if (this.disposed) throw this.disposed;
        if (place.wanted === 0) throw new DOMException('Nobody waits for the model any more.', 'AbortError');
        const others = this.loaded();
        if (others.length === 0)
          throw new HttpError(503, `The model takes ${place.bytes} bytes, more than the ${this.#maxBytes} that models may take here.`, {
            code: 'model_too_large',
          });
        const [idle] = others.filter(({ users }) => users === 0).sort((a, b) => a.used - b.used);
        if (idle) await this.unload(idle);
        else {
          this.needy ??= { place, over: new Promise<void>((resolve) => (over = resolve)) };
          await new Promise<void>((resolve) => (this.#wake = resolve));
        }
      }
    } finally {
      this.needy = undefined;
      over();
    }
  }
}

class ModelsOnDemand implements Models {
  readonly #room: Room;
  readonly #maxWaiting: number;
  /** Requests that wait for their models. */
  #waiting = 0;
  /** Counts releases, for Place.used. */
  #clock = 0;

  constructor(room: Room, maxWaiting: number) {
    this.#room = room;
    this.#maxWaiting = maxWaiting;
  }

  list(): ReturnType<Models['list']> {
    return [...this.#room.places.values()].map(({ entry: { id }, model, loading, failed }) =>
      model ? { id, status: 'loaded', backend: model } : { id, status: loading ? 'loading' : failed ? 'failed' : 'unloaded' },
    );
  }

  async use(id: string | undefined, signal: AbortSignal): Promise<Lease> {
    const room = this.#room;
    if (room.disposed) throw room.disposed;
    const place = this.#find(id);
    const waits = place.model === undefined || room.needy !== undefined;
    if (waits && this.#waiting >= this.#maxWaiting)
      throw new HttpError(429, `${this.#waiting} requests are waiting for models; no more are accepted. Try again in 10 s.`, {
        code: 'rate_limit_exceeded',
        headers: { 'retry-after': '10' },
      });
    place.wanted++;
    this.#waiting++;
    try {
      const backend = await this.#take(place, signal);
      return leaseOf(backend, () => {
        place.users--;
        place.used = ++this.#clock;
        room.wake();
      });
    } finally {
      place.wanted--;
      this.#waiting--;
      room.wake();
    }
  }

  look(id: string | undefined): Lease | undefined {
    const room = this.#room;
    if (id === undefined) {
      const [place] = room.loaded().sort((a, b) => Number(b.users > 0) - Number(a.users > 0) || b.used - a.used);
      return place && leaseOf(place.model!, () => undefined);
    }
    const place = this.#find(id);
    if (place.model) return leaseOf(place.model, () => undefined);
    if (room.fits(place) && !room.needy) return undefined;
    throw new HttpError(503, `The model ${JSON.stringify(id)} is not loaded. POST /models/load loads it in the place of another.`, {
      code: 'model_not_loaded',
    });
  }

  async unload(id: string): Promise<void> {
    const place = this.#find(id);
    if (place.users > 0 || place.loading)
      throw new HttpError(409, `The model ${JSON.stringify(place.entry.id)} is in use. Try again when its requests are answered.`, {
        code: 'model_in_use',
      });
    await this.#room.unload(place);
  }

  dispose(): Promise<void> {
    return this.#room.dispose();
  }

  #find(id: string | undefined): Place {
    const { places } = this.#room;
    const place = id === undefined ? places.values().next().value : places.get(id);
    if (!place) throw unknownModel(id!, [...places.keys()]);
    return place;
  }

  /**
   * Returns the model and marks it as used in the same step, so that nobody can unload it in
   * between.
   */
  async #take(place: Place, signal: AbortSignal): Promise<LoadedModel> {
    const room = this.#room;
    for (;;) {
      while (room.needy && room.needy.place !== place) await within(room.needy.over, signal);
      const model = place.model ?? (await within(room.load(place), signal));
      // It may have been unloaded while this function waited.
      if (place.model !== model) continue;
      place.users++;
      return model;
    }
  }
}

function leaseOf(backend: LoadedModel, release: () => void): Lease {
  let released = false;
  return {
    backend,
    release() {
      if (!released) release();
      released = true;
    },
  };
}

/** The value of a promise, unless the signal aborts first. */
async function within<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
    promise.catch(() => undefined);
  }
}
