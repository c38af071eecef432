/** Progress of reading a prompt: as calls, and as parts of a stream. */
import type { ImageProgress } from '../run/image-tokens.ts';

/** Tokens of the prompt, images included. */
export interface PromptProgress {
  readonly phase: 'prompt';
  /** Tokens that are in the cache: those that were there before, and those computed since. */
  readonly done: number;
  readonly total: number;
  /** Tokens that were in the cache before. */
  readonly cached: number;
}

export type GenerateProgress = ImageProgress | PromptProgress;

/** State of reading a prompt. */
export class Reading {
  readonly done: number;
  readonly total: number;
  readonly cached: number;
  /** Milliseconds since the reading began. */
  readonly ms: number;
  /** Progress of encoding images, while they are encoded. */
  readonly images: Pick<ImageProgress, 'done' | 'total'> | undefined;

  constructor({ done, total, cached }: Omit<PromptProgress, 'phase'>, ms: number, images: Reading['images']) {
    this.done = done;
    this.total = total;
    this.cached = cached;
    this.ms = ms;
    this.images = images;
  }
}

/**
 * The values of a generation's stream, and before and between them the state of its reading. A reader
 * that is slow gets the newest state alone.
 * @param run begins the generation with this `onProgress`
 */
export async function* withReading<T, R>(
  run: (onProgress: (progress: GenerateProgress) => void) => AsyncGenerator<T, R>,
): AsyncGenerator<T | Reading, R> {
  let began: number | undefined;
  let prompt = { done: 0, total: 0, cached: 0 };
  let newest: Reading | undefined;
  let wake = (): void => {};
  const source = run((progress) => {
    began ??= performance.now();
    if (progress.phase === 'prompt') prompt = progress;
    newest = new Reading(prompt, performance.now() - began, progress.phase === 'image' ? progress : undefined);
    wake();
  });
  const toldOrDone = (next: Promise<unknown>): Promise<unknown> => Promise.race([next, new Promise<void>((resolve) => (wake = resolve))]);
  const taken = (): Reading | undefined => {
    const told = newest;
    newest = undefined;
    return told;
  };
  let next = source.next();
  try {
    for (;;) {
      next.catch(() => undefined); // thrown where it is awaited, unless the reader leaves before
      if (!newest) await toldOrDone(next);
      const told = taken();
      if (told) {
        yield told;
        continue;
      }
      const got = await next;
      if (got.done) return got.value;
      yield got.value;
      next = source.next();
    }
  } finally {
    await source.return(undefined as never);
  }
}
