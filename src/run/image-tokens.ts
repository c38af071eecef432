/**
 * Tokens of images in sequences. They have negative ids, so a slot compares and shares them as it
 * does other tokens: the same picture always has the same ids while it is known.
 */
import { QuantletError } from '../errors.ts';

/** Tokens of one image, which have consecutive ids: firstId, firstId - 1 ... */
export interface ImageRun {
  readonly firstId: number;
  readonly nTokens: number;
  /**
   * Tokens in a row of the image, for models whose positions have rows and columns (M-RoPE); 0: one
   * position after the other.
   */
  readonly columns: number;
  /** Positions that the image takes. */
  readonly nPositions: number;
  /** false: tokens of the image see each other in both directions, so they share a step. */
  readonly causal: boolean;
  /** f32 [width of the embeddings, nTokens], once it was encoded. */
  rows: Float32Array | undefined;
  /** Encodes the image, once. */
  encode(signal: AbortSignal | undefined, onProgress?: (fraction: number) => void): Promise<Float32Array>;
}

/** Size and place of a new image in sequences. */
type ImagePlace = Pick<ImageRun, 'nTokens' | 'columns' | 'nPositions' | 'causal'>;

/** Progress of reading a prompt. */
export interface ImageProgress {
  readonly phase: 'image';
  /** Images that were encoded so far, with a fraction for the one that is being encoded. */
  readonly done: number;
  /** Images of the prompt that were not encoded before: tiles of a picture count as images. */
  readonly total: number;
}

/**
 * Marks of our objects. Symbols, because no client may make one of JSON, and registered ones, because
 * the package may be loaded twice: a model and a server may have their own copies of this file.
 */
const IMAGE = Symbol.for('quantlet.image');
const RUNS = Symbol.for('quantlet.runs');

/** A picture as it stands in prompts. */
export class PromptImage {
  readonly [IMAGE] = true;
  /** Text that stands for the picture while a prompt is written. Random, so nobody can write it. */
  readonly marker = newMarker();
  /** Tokens of its images, and the model's own tokens around them. */
  readonly ids: readonly number[];
  readonly runs: readonly ImageRun[];

  constructor(ids: readonly number[], runs: readonly ImageRun[]) {
    this.ids = ids;
    this.runs = runs;
  }

  static [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && IMAGE in value;
  }
}

function newMarker(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `<__image_${Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')}__>`;
}

/**
 * An image: the bytes of a PNG or JPEG file, a Blob of it, a data: URL, or pixels (rows of 1, 3 or 4
 * channels of 8 bits; ImageData, too).
 */
export type ImageSource =
  | Uint8Array
  | ArrayBuffer
  | Blob
  | string
  | URL
  | {
      readonly data: Uint8Array | Uint8ClampedArray;
      readonly width: number;
      readonly height: number;
      readonly channels?: number | undefined;
    };

/** Samples of one channel, full scale -1 to 1, at so many per second. */
export interface AudioSamples {
  readonly samples: Float32Array;
  readonly sampleRate: number;
}

/** A platform's AudioBuffer, as decodeAudioData() makes it. */
export interface AudioBufferLike {
  readonly numberOfChannels: number;
  readonly length: number;
  readonly sampleRate: number;
  getChannelData(channel: number): Float32Array;
}

/** A sound: the bytes of a WAV file, a Blob of it, a data: URL, samples, or an AudioBuffer. */
export type AudioSource = Uint8Array | ArrayBuffer | Blob | string | URL | AudioSamples | AudioBufferLike;

/** An image or a sound in a prompt. Files that are sounds by their first bytes are sounds wherever they stand. */
export type MediaSource = ImageSource | { readonly audio: AudioSource };

/** Kinds of input besides text that a model takes. */
export interface Modalities {
  readonly vision: boolean;
  readonly audio: boolean;
}

/** Reads images and sounds for the prompts of a model. */
export interface ImageReader {
  read(media: MediaSource, signal?: AbortSignal): Promise<PromptImage>;
  dispose(): Promise<void>;
}

/** The same list, whose ids of images are now accepted as a prompt. */
export function withImages<T extends readonly number[]>(ids: T, runs: readonly ImageRun[]): T {
  return runs.length > 0 ? Object.defineProperty(ids, RUNS, { value: runs }) : ids;
}

/** Images of a prompt that was made by withImages(). No other list may have ids of images. */
export const imagesOf = (ids: readonly number[]): readonly ImageRun[] => (ids as { readonly [RUNS]?: readonly ImageRun[] })[RUNS] ?? [];

/** Ids as callers see them: -1 for each token of an image. */
export const publicIds = (ids: readonly number[]): readonly number[] =>
  imagesOf(ids).length > 0 ? ids.map((id) => Math.max(id, -1)) : ids;

export const isImage = (id: number): boolean => id < 0;

/** Ids of one image lie in a block of this size. -1 is no token. */
const BLOCK = 1 << 16;
const FIRST = -2;

/** The first id of the n-th image, and the reverse for any of its ids. */
const firstIdOf = (n: number): number => FIRST - n * BLOCK;
const numberOf = (id: number): number => Math.floor((FIRST - id) / BLOCK);

/** All ids of an image. */
export const idsOfRun = ({ firstId, nTokens }: ImageRun): number[] => Array.from({ length: nTokens }, (_, i) => firstId - i);

/** Most tokens of one image. */
export const MAX_IMAGE_TOKENS = BLOCK - 1;

/** Index of a token in its image. */
export const indexInImage = (id: number): number => (FIRST - id) % BLOCK;

/**
 * Shortens the beginning of a sequence that would end within an image, to the image's first token.
 */
export function wholeImages(ids: ArrayLike<number>, length: number): number {
  const next = length < ids.length ? ids[length] : 0;
  return isImage(next) ? length - Math.min(length, indexInImage(next)) : length;
}

/** Bytes of embeddings that are kept for pictures that no sequence has. */
const KEPT_BYTES = 64 << 20;
/** Bytes that an image counts at least: its pixels, until it is encoded. */
const LEAST_BYTES = 256 << 10;

/** The images that a model knows. */
export class ImageTokens {
  private readonly slots: readonly { readonly tokens: readonly number[] }[];
  /** Images of each picture by its key, the picture used longest ago first. */
  private readonly pictures = new Map<string, readonly ImageRun[]>();
  private readonly runs = new Map<number, ImageRun>();
  /** Images of running generations, and how many need each. */
  private readonly held = new Map<ImageRun, number>();
  private n = 0;
  /** Chain of all encodings. */
  private queue: Promise<unknown> = Promise.resolve();

  constructor(slots: readonly { readonly tokens: readonly number[] }[]) {
    this.slots = slots;
  }

  /**
   * New tokens of an image. All encodings of a model run one after the other.
   * @param encode called until it succeeds once, then dropped with what it holds, such as pixels
   */
  newRun(place: ImagePlace, encode: ImageRun['encode']): ImageRun {
    let work: ImageRun['encode'] | undefined = encode;
    const run: ImageRun = {
      ...place,
      firstId: firstIdOf(this.n++),
      rows: undefined,
      encode: (signal, onProgress) => {
        const rows = this.queue.then(async () => {
          signal?.throwIfAborted();
          run.rows ??= await work!(signal, onProgress);
          work = undefined;
          return run.rows;
        });
        this.queue = rows.catch(() => {});
        return rows;
      },
    };
    return run;
  }

  /** True if the images of a picture are known. */
  known(key: string): boolean {
    return this.pictures.has(key);
  }

  /** The images of a picture: those that are known, or new ones. */
  of(key: string, make: () => readonly ImageRun[]): readonly ImageRun[] {
    const runs = this.pictures.get(key) ?? make();
    this.pictures.delete(key);
    this.pictures.set(key, runs);
    this.forget();
    this.know(runs);
    return runs;
  }

  /** Keeps the images of a prompt until the returned function is called. */
  hold(runs: readonly ImageRun[]): () => void {
    for (const run of runs) this.held.set(run, (this.held.get(run) ?? 0) + 1);
    this.know(runs);
    return () => {
      for (const run of runs) {
        const users = this.held.get(run)! - 1;
        if (users > 0) this.held.set(run, users);
        else this.held.delete(run);
      }
      this.forget();
    };
  }

  /** @throws ERR_INVALID_ARGUMENT for an id that is no token of a known image */
  find(id: number): ImageRun {
    const run = this.runs.get(numberOf(id));
    if (run) return run;
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the id ${id} is a token of an image that is not known any more; give the image again`);
  }

  /** Encodes the images of these tokens, as far as they were not. */
  async encode(ids: readonly number[], signal: AbortSignal | undefined, onProgress?: (progress: ImageProgress) => void): Promise<void> {
    const runs = [...new Set(ids.filter(isImage).map((id) => this.find(id)))].filter(({ rows }) => !rows);
    const tell = onProgress && ((done: number): void => onProgress({ phase: 'image', done, total: runs.length }));
    for (const [i, run] of runs.entries()) {
      await run.encode(signal, tell && ((fraction) => tell(i + fraction)));
    }
  }

  /** Positions fewer than cells, because of the images in the first `length` of these tokens. */
  lag(tokens: ArrayLike<number>, length: number): number {
    let lag = 0;
    for (let i = 0; i < length; i++) {
      if (!isImage(tokens[i])) continue;
      const run = this.find(tokens[i]);
      const end = i + run.nTokens - indexInImage(tokens[i]);
      if (end <= length) lag += run.nTokens - run.nPositions;
      i = end - 1;
    }
    return lag;
  }

  private know(runs: readonly ImageRun[]): void {
    for (const run of runs) this.runs.set(numberOf(run.firstId), run);
  }

  /** Drops pictures that nobody needs, those used longest ago first. */
  private forget(): void {
    const inSlots = new Set(this.slots.flatMap(({ tokens }) => tokens.filter(isImage).map(numberOf)));
    const isNeeded = (run: ImageRun): boolean => this.held.has(run) || inSlots.has(numberOf(run.firstId));
    const kept = new Set<ImageRun>();
    let bytes = 0;
    for (const [key, runs] of [...this.pictures].reverse()) {
      bytes += runs.reduce((sum, { rows }) => sum + (rows?.byteLength ?? 0) + LEAST_BYTES, 0);
      if (bytes > KEPT_BYTES && !runs.some(isNeeded)) this.pictures.delete(key);
      else for (const run of runs) kept.add(run);
    }
    for (const [n, run] of this.runs) if (!kept.has(run) && !isNeeded(run)) this.runs.delete(n);
  }
}
