/**
 * Measures a text by llama-perplexity's method: in windows of nCtx tokens, with the first token
 * replaced by BOS and only the second half counted.
 */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../align.ts';
import { KV_SPLIT } from '../graph/layout.ts';
import type { Model } from '../model.ts';
import type { Scorer } from './score.ts';

/**
 * Limit of cache cells for windows computed together. More would cost memory without being faster.
 */
const MOST_CELLS = 4096;

/**
 * Number of windows computed together: enough to fill a batch, because small batches make products
 * slow.
 */
export const windowsAtOnce = (nCtx: number, batch: number): number =>
  Math.max(1, Math.min(Math.floor(batch / nCtx), Math.floor(MOST_CELLS / alignUp(nCtx, KV_SPLIT))));

/** @throws ERR_INVALID_ARGUMENT if the model does not predict text */
export function mustPredict(model: Model): void {
  const { wants } = model.internals.engine;
  if (wants !== 'logits')
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `this ${model.architecture} model makes ${wants} and does not predict text; expected a model that generates text`,
    );
  if (model.encoder)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `this ${model.architecture} model has an encoder that reads the text; expected a model that predicts it`,
    );
}

/**
 * Number of windows in a text of nTokens, limited to `most`.
 * @throws ERR_INVALID_ARGUMENT for a text shorter than one window
 */
export function windowCount(nTokens: number, nCtx: number, most: number): number {
  const n = Math.min(most, Math.floor(nTokens / nCtx));
  if (n < 1)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the text has ${nTokens} tokens; expected at least one window of ${nCtx}: give a longer text or a smaller -c (contextLength)`,
    );
  return n;
}

export interface WindowOptions {
  readonly ids: readonly number[];
  readonly nCtx: number;
  readonly nChunk: number;
  readonly parallel: number;
  /** Number of computed tokens per window, and the first one whose logits are needed. */
  readonly computed: number;
  readonly outputsFrom: number;
  readonly signal: AbortSignal;
}

/** Receives the logits of a window's tokens in order, and returns a result at the end. */
export interface WindowReader<T> {
  onLogits(logits: Float32Array, i: number): void;
  readonly result: T;
}

/**
 * Yields the results of all windows in the order of the text. Windows computed together form one
 * list.
 */
export async function* overWindows<T>(
  model: Model,
  { ids, nCtx, nChunk, parallel, computed, outputsFrom, signal }: WindowOptions,
  read: (window: readonly number[], chunk: number) => WindowReader<T> | Promise<WindowReader<T>>,
): AsyncGenerator<readonly T[]> {
  const { scheduler, tokenizer, engine, slots } = model.internals;
  const bos = tokenizer.addBos ? tokenizer.special.bos : undefined;
  const one = async (chunk: number): Promise<T> => {
    const window = ids.slice(chunk * nCtx, (chunk + 1) * nCtx);
    window[0] = bos ?? window[0];
    const reader = await read(window, chunk);
    const slot = await slots.acquire(signal);
    try {
      slot.truncate(0);
      await scheduler.submit(slot, window.slice(0, computed), outputsFrom, (logits, i) => reader.onLogits(logits, i), signal);
    } finally {
      slots.release(slot);
    }
    return reader.result;
  };
  try {
    for (let chunk = 0; chunk < nChunk; chunk += parallel)
      yield await Promise.all(Array.from({ length: Math.min(parallel, nChunk - chunk) }, (_, i) => one(chunk + i)));
  } finally {
    engine.executor.rest();
  }
}

/**
 * -ln p of the token after token i of a window. The scorer has loaded the logits of token i.
 * @throws ERR_LOGITS if the logits are not finite
 */
export function nllOf(scorer: Scorer, window: readonly number[], i: number, chunk: number): number {
  const nll = -scorer.logProb(window[i + 1]);
  if (!Number.isFinite(nll))
    throw new QuantletError(
      'ERR_LOGITS',
      `the logits after token ${i} of window ${chunk + 1} are not finite; the model's weights are damaged or overflow`,
    );
  return nll;
}

/** Perplexity of the tokens counted so far. */
export interface PerplexityEstimate {
  readonly ppl: number;
  /** Mean of -ln p of the counted tokens. */
  readonly nll: number;
  /** Number of counted tokens: those of the second halves of the windows. */
  readonly tokens: number;
  /** Standard error of `ppl`. */
  readonly pplStderr: number;
}

/** A running estimate. */
export interface Estimate {
  add(nll: number): void;
  value(): PerplexityEstimate;
}

export function createEstimate(): Estimate {
  let tokens = 0;
  let sum = 0;
  let sumOfSquares = 0;
  return {
    add(x) {
      tokens++;
      sum += x;
      sumOfSquares += x * x;
    },
    value() {
      const nll = sum / tokens;
      const ppl = Math.exp(nll);
      return { ppl, nll, tokens, pplStderr: ppl * Math.sqrt(Math.max(0, sumOfSquares / tokens - nll ** 2) / Math.max(1, tokens - 1)) };
    },
  };
}
