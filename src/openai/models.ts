/** Several models behind one handler: loaded when a request names them, given up when others need their room. */
import { QuantletError } from '../errors.ts';
import { KIND, checkOptions, required, type Kinds } from '../options.ts';
import type { Backend } from './backend.ts';
import { HttpError } from './http-error.ts';

/** A model that can be had. */
export interface ModelEntry {
  /** The name by which requests ask for it. */
  readonly id: string;
  /** Bytes of memory it will take, as far as is known before it is loaded: the size of its file, say. */
  readonly bytes?: number | undefined;
  load(): Promise<LoadedModel>;
}

/** What quantlet's loadModel gives. */
export interface LoadedModel extends Backend {
  readonly stats?: { readonly memoryBytes: number };
  dispose(): Promise<void>;
}

export interface ModelsOptions {
  /** Models that are loaded at the same time. Default 4. */
  maxLoaded?: number | undefined;
  /** Bytes of memory that loaded models take together. Default: no limit. */
  maxBytes?: number | undefined;
  /** Requests that wait until a model is loaded; more get 429. Default 64. */
  maxWaiting?: number | undefined;
}

const MODEL_ENTRY: Kinds<ModelEntry> = { id: required(KIND.string), bytes: KIND.atLeast0, load: required(KIND.function) };
const MODELS_OPTIONS: Kinds<ModelsOptions> = { maxLoaded: KIND.any, maxBytes: KIND.any, maxWaiting: KIND.count };

export interface ModelStatus {
  readonly id: string;
  readonly status: 'unloaded' | 'loading' | 'loaded' | 'failed';
  /** Of a loaded one. */
  readonly backend?: Backend;
}

/** A model while a request has it. */
export interface Lease {
  readonly backend: Backend;
  /** Nothing is computed with it any more for this request. */
  release(): void;
}

/** What createHandler serves, where that is more than one model. */
export interface Models {
  list(): readonly ModelStatus[];
  /**
   * A model by its name, the first where a request names none: loaded where it is not yet, when those that are in its place are free.
   * @throws HttpError 404 where there is none of that name, 429 where too many wait already; what loading throws, or signal.reason
   */
  use(id: string | undefined, signal: AbortSignal): Promise<Lease>;
  /**
   * A model to look at: one that is loaded, of its name or, without a name, the one in use or used last. Undefined where none is; use() may load that
   * of the name then, for there is room.
   * @throws HttpError 404 where there is none of that name, 503 where another would have to be given up for it
   */
  look(id: string | undefined): Lease | undefined;
  /** Gives a model's memory back. @throws HttpError 404, or 409 while requests have it */
  unload(id: string): Promise<void>;
  dispose(): Promise<void>;
}

/** One model, whatever it is asked by; with `strict`, by its own name only. */
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

interface Place {
  readonly entry: ModelEntry;
  bytes: number;
  /** Requests that have it, and those that wait for it. */
  users: number;
  wanted: number;
  /** When it was last let go, counted. */
  used: number;
  model: LoadedModel | undefined;
  loading: Promise<LoadedModel> | undefined;
  failed: boolean;
}

/**
 * Models that are loaded on demand. Where there is no room for another, the one that was not used for longest is given up; one that requests have
 * stays until they are answered, and requests that come later for any other model wait behind the one that needs its place.
 * @throws QuantletError ERR_INVALID_ARGUMENT for two of the same name, or none
 */
export function createModels(entries: readonly ModelEntry[], options?: ModelsOptions): Models {
  const { maxLoaded = 4, maxBytes = Infinity, maxWaiting = 64 } = checkOptions('createModels', options, MODELS_OPTIONS);
  const places = new Map<string, Place>();
  for (const entry of entries) {
    checkOptions('createModels: a model', entry, MODEL_ENTRY);
    if (places.has(entry.id))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `two models are called ${JSON.stringify(entry.id)}; expected a name for each`);
    places.set(entry.id, {
      entry,
      bytes: entry.bytes ?? 0,
      users: 0,
      wanted: 0,
      used: 0,
      model: undefined,
      loading: undefined,
      failed: false,
    });
  }
  if (places.size === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'there are no models; expected at least one');
  if (!(maxLoaded >= 1)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxLoaded is ${maxLoaded}; expected a whole number from 1 on`);
  if (!(maxBytes > 0)) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxBytes is ${maxBytes}; expected a number of bytes`);
  let clock = 0;
  let waiting = 0;
  let disposed: QuantletError | undefined;
  /** Loads go one after the other. */
  let last: Promise<unknown> = Promise.resolve();
  /** A model that waits until another is free, and the end of that: requests for others wait behind it. */
  let needy: { readonly place: Place; readonly over: Promise<void> } | undefined;
  let wake = (): void => {};

  const loaded = (): Place[] => [...places.values()].filter(({ model }) => model !== undefined);
  const find = (id: string | undefined): Place => {
    const place = id === undefined ? places.values().next().value : places.get(id);
    if (!place) throw unknownModel(id!, [...places.keys()]);
    return place;
  };
  const giveUp = async (place: Place): Promise<void> => {
    const { model } = place;
    place.model = undefined;
    await model?.dispose();
  };
  const fits = (place: Place): boolean => {
    const others = loaded();
    return others.length < maxLoaded && others.reduce((sum, { bytes }) => sum + bytes, place.bytes) <= maxBytes;
  };

  async function makeRoom(place: Place): Promise<void> {
    let over = (): void => {};
    try {
      while (!fits(place)) {
        if (disposed) throw disposed;
        if (place.wanted === 0) throw new DOMException('Nobody waits for the model any more.', 'AbortError');
        const others = loaded();
        if (others.length === 0)
          throw new HttpError(503, `The model takes ${place.bytes} bytes, more than the ${maxBytes} that models may take here.`, {
            code: 'model_too_large',
          });
        const [idle] = others.filter(({ users }) => users === 0).sort((a, b) => a.used - b.used);
        if (idle) await giveUp(idle);
        else {
          needy ??= { place, over: new Promise<void>((resolve) => (over = resolve)) };
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      needy = undefined;
      over();
    }
  }

  async function make(place: Place): Promise<LoadedModel> {
    for (;;) {
      await makeRoom(place);
      const model = await place.entry.load();
      model.tokenize('a'); // builds the tokenizer's tables: no request shall wait for that
      place.bytes = model.stats?.memoryBytes ?? place.bytes;
      if (!disposed && fits(place)) return (place.model = model);
      // It is larger than its file let expect.
      await model.dispose();
      if (disposed) throw disposed;
    }
  }

  function load(place: Place): Promise<LoadedModel> {
    if (place.loading) return place.loading;
    const loading = last.then(() => make(place));
    place.loading = loading;
    last = loading
      .then(
        () => (place.failed = false),
        (error: unknown) => (place.failed = !(error instanceof DOMException)),
      )
      .finally(() => (place.loading = undefined));
    return loading;
  }

  /** The place's model, taken before anybody can give it up. */
  async function take(place: Place, signal: AbortSignal): Promise<LoadedModel> {
    for (;;) {
      while (needy && needy.place !== place) await within(needy.over, signal);
      const model = place.model ?? (await within(load(place), signal));
      // It may have been given up again in the meantime.
      if (place.model !== model) continue;
      place.users++;
      return model;
    }
  }

  return {
    list: () =>
      [...places.values()].map(({ entry: { id }, model, loading, failed }) =>
        model ? { id, status: 'loaded', backend: model } : { id, status: loading ? 'loading' : failed ? 'failed' : 'unloaded' },
      ),
    async use(id, signal) {
      if (disposed) throw disposed;
      const place = find(id);
      const waits = place.model === undefined || needy !== undefined;
      if (waits && waiting >= maxWaiting)
        throw new HttpError(429, `${waiting} requests are waiting for models; no more are accepted. Try again in 10 s.`, {
          code: 'rate_limit_exceeded',
          headers: { 'retry-after': '10' },
        });
      place.wanted++;
      waiting++;
      try {
        const backend = await take(place, signal);
        return leaseOf(backend, () => {
          place.users--;
          place.used = ++clock;
          wake();
        });
      } finally {
        place.wanted--;
        waiting--;
        wake();
      }
    },
    look(id) {
      if (id === undefined) {
        const [place] = loaded().sort((a, b) => Number(b.users > 0) - Number(a.users > 0) || b.used - a.used);
        return place && leaseOf(place.model!, () => undefined);
      }
      const place = find(id);
      if (place.model) return leaseOf(place.model, () => undefined);
      if (fits(place) && !needy) return undefined;
      throw new HttpError(503, `The model ${JSON.stringify(id)} is not loaded. POST /models/load loads it in the place of another.`, {
        code: 'model_not_loaded',
      });
    },
    async unload(id) {
      const place = find(id);
      if (place.users > 0 || place.loading)
        throw new HttpError(409, `The model ${JSON.stringify(place.entry.id)} is in use. Try again when its requests are answered.`, {
          code: 'model_in_use',
        });
      await giveUp(place);
    },
    async dispose() {
      disposed ??= new QuantletError('ERR_DISPOSED', 'the models were disposed of; make new ones');
      wake();
      await last.catch(() => undefined);
      await Promise.all(loaded().map(giveUp));
    },
  };
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

/** What a promise gives, unless the signal aborts first. */
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
