/** First steps of a model, before a caller waits for one. */
import { dummyBatch } from '../run/batch-inputs.ts';
import type { ModelEngine } from '../run/model-engine.ts';

/**
 * Maximum duration of warming up, in milliseconds. V8 starts kernels unoptimised and replaces them
 * in the background while they run.
 */
const CAP_MS = 400;
/** Factor to the best time so far below which V8 is still optimising. */
const FALLING = 0.9;
/**
 * Steps and milliseconds without getting faster after which V8 is done. Time counts too, because
 * many short steps can run before the optimiser finishes.
 */
const STEADY_STEPS = 4;
const STEADY_MS = 40;

/**
 * Only steps shorter than this are tried with fewer threads. Meeting at some 40 barriers costs tens
 * of microseconds; longer steps gain from every thread.
 */
const SHORT_MS = 3;
/** Bytes of weights per thread that cannot be read in SHORT_MS, at 12 GB/s. */
const LONG_BYTES = 36 << 20;
/** Factor by which fewer threads must be faster, because the user asked for more. */
const CLEARLY = 0.8;

/**
 * Runs steps of one token and of a short prompt until their time stops falling, and finds the
 * number of threads that generates fastest: in small models, a token takes less time than many
 * threads need to meet. Results are dropped: the cells that these steps write are written again
 * before anything reads them. With turbo, kernels are optimised when first called, so two steps are
 * enough if they are too long to try fewer threads. Returns the milliseconds it took.
 * @param when 'short': only if the weights do not make steps longer than SHORT_MS
 */
export async function warmUp(engine: ModelEngine, when: boolean | 'short', signal?: AbortSignal): Promise<number> {
  const start = performance.now();
  const { threads } = engine.executor;
  if (when === false || engine.streams || (when === 'short' && engine.memory.weights > threads * LONG_BYTES)) return 0;
  if (engine.turbo) {
    const times = [await steadyTime(engine, 1, start, signal), await steadyTime(engine, 1, start, signal)];
    if (Math.min(...times) >= SHORT_MS) {
      engine.executor.rest();
      return performance.now() - start;
    }
  } else await steadyTime(engine, Math.min(16, engine.batchSize), start + CAP_MS / 2, signal);
  let best = await steadyTime(engine, 1, start + CAP_MS, signal);
  for (let n = threads >> 1, fastest = threads; n >= 1 && best < SHORT_MS; n >>= 1) {
    engine.generationThreads = n;
    const ms = await steadyTime(engine, 1, start + CAP_MS, signal);
    if (ms < best * CLEARLY) [best, fastest] = [ms, n];
    else engine.generationThreads = fastest;
  }
  engine.executor.rest();
  return performance.now() - start;
}

/** Median of the last steps, when their time no longer falls or at `until`. */
async function steadyTime(engine: ModelEngine, nTokens: number, until: number, signal: AbortSignal | undefined): Promise<number> {
  const batch = dummyBatch(nTokens);
  const times: number[] = [];
  let best = Infinity;
  let steady = 0;
  let steadySince = performance.now();
  while (steady < STEADY_STEPS || performance.now() - steadySince < STEADY_MS) {
    const before = performance.now();
    await engine.step(batch, signal);
    const now = performance.now();
    const ms = now - before;
    times.push(ms);
    if (ms < best * FALLING) [steady, steadySince] = [0, now];
    else steady++;
    best = Math.min(best, ms);
    if (now > until) break;
  }
  return times.slice(-9).sort((a, b) => a - b)[Math.min(9, times.length) >> 1];
}
