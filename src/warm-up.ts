import type { Engine } from './engine.ts';
import type { Batch } from './scheduler.ts';

/** V8 starts kernels unoptimised and replaces them in the background while they are used. */
const CAP_MS = 400;
/** A step that is this much faster than the best so far means that V8 is not done. */
const FALLING = 0.9;
/** Steps without getting faster after which it is done; short steps are over before the optimiser is, so time counts too. */
const STEADY_STEPS = 4;
const STEADY_MS = 40;

/**
 * Runs steps of one token and of a short prompt until their time stops falling. Results are thrown away: the cells they
 * write are written again before anything reads them. Returns the milliseconds it took.
 */
export async function warmUp(engine: Engine, signal?: AbortSignal): Promise<number> {
  const start = performance.now();
  for (const nTokens of [1, Math.min(16, engine.batchSize)]) {
    const batch = dummyBatch(nTokens);
    const from = performance.now(), cap = nTokens === 1 ? CAP_MS / 2 : CAP_MS;
    let best = Infinity, steady = 0, steadySince = from;
    while (steady < STEADY_STEPS || performance.now() - steadySince < STEADY_MS) {
      const before = performance.now();
      await engine.step(batch, signal);
      const now = performance.now(), ms = now - before;
      if (ms < best * FALLING) [steady, steadySince] = [0, now];
      else steady++;
      best = Math.min(best, ms);
      if (now - start > cap) break;
    }
  }
  engine.executor.rest();
  return performance.now() - start;
}

function dummyBatch(n: number): Batch {
  const count = Int32Array.from({ length: n }, (_, i) => i);
  return { ids: new Int32Array(n), pos: count, cells: count, first: new Int32Array(n), visible: count.map((i) => i + 1), outputs: new Int32Array([n - 1]), nTokens: n, nOutputs: 1 };
}
