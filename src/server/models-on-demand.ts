/** Several models in one handler: loaded on demand, and unloaded if others need their memory. */
import { QuantletError } from '../errors.ts';
import { KIND, checkOptions, required, type Kinds } from '../options.ts';
import { HttpError } from './http/http-error.ts';
import { placeOf, Room, type Place } from './model-room.ts';
import { modelNamed, unknownModel, type Lease, type LoadedModel, type ModelEntry, type Models } from './models.ts';

export interface ModelsOptions {
  /** Maximum number of loaded models. Default 4. */
  maxLoaded?: number | undefined;
  /** Maximum bytes of memory of all loaded models. Default: no limit. */
  maxBytes?: number | undefined;
  /** Maximum number of requests that wait for a model to load; more get 429. Default 64. */
  maxWaiting?: number | undefined;
  /** More models may be added later, so that the list may be empty. Default false. */
  mayGrow?: boolean | undefined;
}

const MODEL_ENTRY: Kinds<ModelEntry> = { id: required(KIND.string), bytes: KIND.atLeast0, load: required(KIND.function) };
const MODELS_OPTIONS: Kinds<ModelsOptions> = { maxLoaded: KIND.any, maxBytes: KIND.any, maxWaiting: KIND.count, mayGrow: KIND.boolean };

/**
 * Creates models that are loaded on demand. If there is no room for another model, the least
 * recently used one is unloaded. A model in use stays until its requests are answered. Meanwhile
 * later requests for other models wait for the model that needs the room.
 * @throws QuantletError ERR_INVALID_ARGUMENT for duplicate names or an empty list
 */
export function createModels(entries: readonly ModelEntry[], options?: ModelsOptions): Models {
  const { maxLoaded = 4, maxBytes = Infinity, maxWaiting = 64, mayGrow = false } = checkOptions('createModels', options, MODELS_OPTIONS);
  const places = placesOf(entries, mayGrow);
  if (!(maxLoaded >= 1)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxLoaded is ${maxLoaded}; expected a whole number from 1 on`);
  if (!(maxBytes > 0)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxBytes is ${maxBytes}; expected a number of bytes`);
  return new ModelsOnDemand(new Room(places, maxLoaded, maxBytes), maxWaiting);
}

/** @throws QuantletError ERR_INVALID_ARGUMENT for duplicate names or an empty list */
function placesOf(entries: readonly ModelEntry[], mayBeEmpty: boolean): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const entry of entries) {
    checkOptions('createModels: a model', entry, MODEL_ENTRY);
    if (places.has(entry.id))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `two models are called ${JSON.stringify(entry.id)}; expected a name for each`);
    places.set(entry.id, placeOf(entry));
  }
  if (places.size === 0 && !mayBeEmpty) throw new QuantletError('ERR_INVALID_ARGUMENT', 'there are no models; expected at least one');
  return places;
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
    return [...this.#room.places.values()].map(({ entry: { id }, model, loading, failed, bytes, expires }) =>
      model
        ? { id, status: 'loaded', backend: model, bytes, ...(expires === undefined ? {} : { expires }) }
        : { id, status: loading ? 'loading' : failed ? 'failed' : 'unloaded' },
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
        if (place.users === 0) room.expire(place, place.keepMs);
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
    throw new HttpError(503, `The model ${JSON.stringify(id)} is not loaded. POST /models/load loads it in place of another.`, {
      code: 'model_not_loaded',
    });
  }

  keep(id: string, ms: number): void {
    const place = this.#find(id);
    place.keepMs = ms;
    if (place.users === 0) this.#room.expire(place, ms);
  }

  add(entry: ModelEntry): void {
    const place = this.#room.places.get(entry.id);
    if (place) place.entry = entry;
    else this.#room.places.set(entry.id, placeOf(entry));
  }

  async drop(id: string): Promise<void> {
    const place = this.#unused(id);
    this.#room.places.delete(place.entry.id);
    await this.#room.unload(place);
  }

  async unload(id: string): Promise<void> {
    await this.#room.unload(this.#unused(id));
  }

  #unused(id: string): Place {
    const place = this.#find(id);
    if (place.users > 0 || place.wanted > 0 || place.loading)
      throw new HttpError(409, `The model ${JSON.stringify(place.entry.id)} is in use. Try again when its requests are answered.`, {
        code: 'model_in_use',
      });
    return place;
  }

  dispose(): Promise<void> {
    return this.#room.dispose();
  }

  #find(id: string | undefined): Place {
    const { places } = this.#room;
    const found =
      id === undefined
        ? undefined
        : modelNamed(
            [...places.keys()].map((id) => ({ id })),
            id,
          );
    const place = id === undefined ? places.values().next().value : found && places.get(found.id);
    if (!place) throw unknownModel(id ?? '', [...places.keys()]);
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
      place.keepMs = Infinity; // a limit is for one request
      room.expire(place, undefined);
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
