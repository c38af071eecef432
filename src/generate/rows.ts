/** Rows of the graph for many texts, which share steps. */
import type { ModelInternals } from '../run/model-internals.ts';

type Ids = readonly number[];
type Rows = Float32Array[];
type Texts = Iterator<Ids, unknown> | AsyncIterator<Ids, unknown>;
/** Poolings that make vectors: all but a reranker's. */
export type RowPooling = 'none' | 'mean' | 'cls' | 'last';

/** Texts that may be started before their turn, for each slot: results are kept until their turn. */
const AHEAD = 8;

/**
 * Runs texts in the slots that are free, and keeps their rows in order. Only one text at a time
 * waits for a slot. If all waited, each would listen to the signal, and other requests would queue
 * after all of them.
 */
class Pump {
  readonly #model: ModelInternals;
  readonly #how: RowPooling;
  readonly #signal: AbortSignal | undefined;
  readonly #ready: Ids[] = [];
  readonly #done = new Map<number, Rows>();
  #started = 0;
  #taken = 0;
  #running = 0;
  /** Set when no more texts are started: all are read, a text failed, or the caller left. */
  #ended = false;
  /** First text that failed. No more are started, and the rows before it are given first. */
  #failure: { readonly error: unknown } | undefined;
  /** A text that could not be read. The texts before it are computed first. */
  #unread: { readonly error: unknown } | undefined;
  #waiting: (() => void)[] = [];

  constructor(model: ModelInternals, how: RowPooling, signal: AbortSignal | undefined) {
    this.#model = model;
    this.#how = how;
    this.#signal = signal;
  }

  /** Reads texts as there is room for them. A text that cannot be read ends the list. */
  async read(texts: Texts): Promise<void> {
    try {
      for (;;) {
        while (!this.#ended && this.#ready.length > this.#model.slots.all.length) await this.changed();
        if (this.#ended) break;
        const next = await texts.next();
        if (next.done) break;
        this.#ready.push(next.value);
        this.#start();
      }
    } catch (error) {
      this.#unread = { error };
    }
    this.#ended = true;
    this.wake();
    await Promise.resolve(texts.return?.()).catch(() => {}); // nobody waits for the source any more
  }

  /** The next text's rows; undefined if they are not there yet. */
  take(): Rows | undefined {
    const rows = this.#done.get(this.#taken);
    if (rows) {
      this.#done.delete(this.#taken++);
      this.#start();
    }
    return rows;
  }

  /**
   * True after the last text.
   * @throws the failure of the text whose turn it is
   */
  atEnd(): boolean {
    if (!this.#ended || this.#running > 0 || (this.#ready.length > 0 && !this.#failure)) return false;
    const failure = this.#failure ?? this.#unread;
    if (failure) throw failure.error;
    return true;
  }

  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** The caller wants no more. Texts in a running step are finished. */
  stop(): void {
    this.#ended = true;
    this.#ready.length = 0;
    this.#restIfIdle();
    this.wake();
  }

  #start(): void {
    const { slots } = this.#model;
    const most = this.#taken + AHEAD * slots.all.length;
    while (!this.#failure && this.#ready.length > 0 && this.#started < most && (this.#running === 0 || slots.active < slots.all.length)) {
      void this.#run(this.#started++, this.#ready.shift()!);
      this.wake();
    }
  }

  async #run(i: number, ids: Ids): Promise<void> {
    this.#running++;
    try {
      this.#done.set(i, await rowsOf(this.#model, ids, this.#how, this.#signal));
    } catch (error) {
      this.#failure ??= { error };
      this.#ended = true;
    }
    this.#running--;
    this.#start();
    if (this.#ended) this.#restIfIdle();
    this.wake();
  }

  #restIfIdle(): void {
    if (this.#model.slots.active === 0) this.#model.engine.executor.rest();
  }
}

/**
 * Output of the graph for each text, in order: one pooled row, or with 'none' a row for each token.
 * A text gets the bits that it gets alone. Reads, computes and keeps a few texts ahead of the
 * caller, however many there are.
 * @throws what reading a text throws, after the rows of the texts before it; signal.reason at once
 * @internal
 */
export async function* rowsInOrder(
  model: ModelInternals,
  texts: Texts,
  how: RowPooling,
  signal: AbortSignal | undefined,
): AsyncGenerator<Rows, void> {
  const pump = new Pump(model, how, signal);
  const wake = (): void => pump.wake();
  signal?.addEventListener('abort', wake);
  try {
    void pump.read(texts);
    for (;;) {
      signal?.throwIfAborted();
      const rows = pump.take();
      if (rows) yield rows;
      else if (pump.atEnd()) return;
      else await pump.changed();
    }
  } finally {
    signal?.removeEventListener('abort', wake);
    pump.stop();
  }
}

/** The rows of one text, which takes a slot for itself. */
async function rowsOf({ scheduler, slots }: ModelInternals, ids: Ids, how: RowPooling, signal: AbortSignal | undefined): Promise<Rows> {
  const slot = await slots.acquire(signal);
  const rows: Float32Array[] = [];
  let sum: Float64Array | undefined;
  try {
    slot.truncate(0);
    await scheduler.submit(
      slot,
      ids,
      how === 'last' ? ids.length - 1 : 0,
      (row, i) => {
        if (how === 'none' || how === 'last' || (how === 'cls' && i === 0)) rows.push(row.slice());
        if (how !== 'mean') return;
        sum ??= new Float64Array(row.length);
        for (let k = 0; k < row.length; k++) sum[k] += row[k];
      },
      signal,
    );
  } finally {
    slots.release(slot);
  }
  return sum ? [Float32Array.from(sum, (x) => x / ids.length)] : rows;
}
