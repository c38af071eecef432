/** Memory for models: loads one after another, and unloads those that are not in use. */
import { QuantletError } from '../errors.ts';
import { HttpError } from './http/http-error.ts';
import type { LoadedModel, ModelEntry } from './models.ts';

/** Maximum delay of setTimeout. */
const MOST_MS = 2 ** 31 - 1;

/** A model of the list, loaded or not. */
export interface Place {
  entry: ModelEntry;
  bytes: number;
  /** Requests that use it, and requests that wait for it. */
  users: number;
  wanted: number;
  /** Time of its last release, by a clock that counts releases. */
  used: number;
  model: LoadedModel | undefined;
  loading: Promise<LoadedModel> | undefined;
  failed: boolean;
  /** Milliseconds for which it stays loaded without a user, the end of this time, and its timer. */
  keepMs: number;
  expires: number | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export const placeOf = (entry: ModelEntry): Place => ({
  entry,
  bytes: entry.bytes ?? 0,
  users: 0,
  wanted: 0,
  used: 0,
  model: undefined,
  loading: undefined,
  failed: false,
  keepMs: Infinity,
  expires: undefined,
  timer: undefined,
});

/** Loads models within the limits of number and memory, one after another. */
export class Room {
  readonly places: Map<string, Place>;
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

  constructor(places: Map<string, Place>, maxLoaded: number, maxBytes: number) {
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
    this.expire(place, undefined);
    await model?.dispose();
  }

  /** Unloads an unused model after a time, unless it is used before; undefined: never. */
  expire(place: Place, ms: number | undefined): void {
    clearTimeout(place.timer);
    place.timer = place.expires = undefined;
    if (ms === undefined || ms === Infinity || !place.model) return;
    place.expires = Date.now() + ms;
    place.timer = setTimeout(() => void this.unload(place).catch(() => undefined), Math.min(ms, MOST_MS));
    // A timer must not keep a process alive. (Browsers return a number.)
    if (typeof place.timer === 'object') place.timer.unref();
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
