/**
 * The longest step of loading: threads read the weights, and this thread prepares everything else
 * for the first step.
 */
import { onAbort } from '../abort.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import { yieldToEventLoop } from '../event-loop.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import type { OpenedModel } from './open-model.ts';
import type { PlacedModel } from '../run/model-engine.ts';
import { writePlans } from './place-model.ts';
import { readsByThreads, readWeights } from './read-weights.ts';

/** Results of the work done side by side. */
export interface LoadedWeights {
  /** Distinguishes these weights from other weights of the same shapes. */
  readonly fingerprint: string;
  readonly tokenizer: Tokenizer;
}

/** Length of a prompt that surely has more tokens than the widest step with kernels of its own. */
const FEW_CHARACTERS = 256;

/**
 * Reads the weights, and meanwhile writes the plans, makes the tokenizer and has V8 compile the
 * kernels of the first step. If one of them fails, the others are stopped, and have ended when this
 * throws.
 * @param cores that this process may use
 * @throws ERR_GGUF_INVALID for Inf or NaN; what reading and createTokenizer() throw
 */
export async function loadWeights(
  placed: PlacedModel,
  opened: OpenedModel,
  { signal, onProgress, firstPrompt }: ResolvedLoadOptions,
  cores: number,
): Promise<LoadedWeights> {
  const stop = new AbortController();
  const unlisten = signal ? onAbort(signal, () => stop.abort(signal.reason)) : () => {};
  const { parts, loras } = opened;
  const reading = readWeights(placed.executor, parts, placed.plan, { loras, signal: stop.signal, onProgress });
  let isRead = false;
  const done = (): void => void (isRead = true);
  void reading.then(done, done);
  const touching = touchPages(placed, opened, cores, () => isRead);
  const preparing = prepare(placed, opened, firstPrompt, touching, () => isRead, stop.signal);
  try {
    const [fingerprint, tokenizer] = await Promise.all([reading, preparing, touching]);
    return { fingerprint, tokenizer };
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled([reading, preparing, touching]);
    throw error;
  } finally {
    unlisten();
  }
}

/** Touches the pages of weights if fewer threads read than there are cores. */
async function touchPages(
  { executor, plan, threads }: PlacedModel,
  { parts }: OpenedModel,
  cores: number,
  isRead: () => boolean,
): Promise<void> {
  if (threads >= cores || !readsByThreads(executor, parts)) return;
  const { touchPages } = await import('./touch-pages.ts');
  for (const { scratchAt, scratchSize } of plan.packings) await touchPages(executor, scratchAt + scratchSize * threads, isRead);
}

/** Work of this thread while others read. */
async function prepare(
  placed: PlacedModel,
  opened: OpenedModel,
  firstPrompt: string | undefined,
  touching: Promise<void>,
  isRead: () => boolean,
  signal: AbortSignal,
): Promise<Tokenizer> {
  if (placed.executor.load) await yieldToEventLoop(); // lets the readers begin before this thread is busy
  await writePlans(placed, opened.parts);
  const tokenizer = opened.tokenizer();
  tokenizer.prepare();
  await touching; // touched pages save the readers as much time as compiled kernels save the first step
  const first = placed.turbo ? firstTokens(tokenizer, firstPrompt) : undefined;
  if (first) await (await import('./compile-ahead.ts')).compileAhead(placed.executor, placed.plan, first, isRead, signal);
  return tokenizer;
}

/** Approximate number of tokens of the first step. */
function firstTokens(tokenizer: Tokenizer, prompt: string | undefined): number | undefined {
  if (prompt === undefined) return undefined;
  try {
    return tokenizer.encode(prompt.slice(0, FEW_CHARACTERS), { parseSpecial: true }).length;
  } catch {
    return undefined; // the call to generate reports the error
  }
}
