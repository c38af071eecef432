/**
 * Workers killed at random moments, during steps and between them: one, several at once, or one a
 * few milliseconds after another. Generations under way complete or fail with ERR_WORKER_LOST,
 * nothing waits forever, and the next generation gives the usual output.
 */
import diagnostics from 'node:diagnostics_channel';
import type { Worker } from 'node:worker_threads';
import type * as Entry from '../../src/entry/node.ts';
import type { Model } from '../../src/model.ts';
import { inTime } from '../../src/threads/where.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { entryUrl, patchedLlama, randomIds } from '../support.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';

/**
 * Far more than a new pool takes at the lowest priority on a busy machine. A deadlocked model waits
 * forever.
 */
const LIMIT_MS = 120_000;
/** Kills per case, and milliseconds between two: a new worker is ready after 20 to 50. */
const MOST_BLOWS = 4;
const MOST_GAP_MS = 60;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  if (!isThreaded(options.build)) return { cases: 0, failures: [] };
  const workers: Worker[] = [];
  const collect = (message: unknown): void => {
    const { worker } = message as { worker: Worker };
    workers.push(worker);
    worker.once('exit', () => workers.splice(workers.indexOf(worker), 1));
  };
  diagnostics.subscribe('worker_threads', collect);
  // The workers are files of dist/.
  const { loadModel } = (await import(entryUrl)) as typeof Entry;
  const file = await patchedLlama({ metadata: { 'llama.context_length': 512 } });
  const prompt = randomIds(200, 272, 3);
  const ids = async (model: Model): Promise<string> => {
    model.internals.slots.all[0].truncate(0); // evaluate the whole prompt again
    return (await model.generate(prompt, { temperature: 0, maxTokens: 24, ignoreEos: true }).result()).ids.join(' ');
  };
  const models: { model: Model; want: string }[] = [];
  for (let threads = 1; threads <= options.threads; threads++) {
    // one link or two
    const model = await loadModel(file, { build: options.build, threads, links: 1 + (threads % 2), warmUp: false });
    models.push({ model, want: await ids(model) });
  }
  const killed = new WeakSet<Worker>();
  let kills = 0;
  const kill = (worker: Worker): void => {
    if (!killed.has(worker)) kills++;
    killed.add(worker);
    void worker.terminate();
  };
  try {
    const result = await runCases(options, async (seed) => {
      const next = seeded(seed);
      // All models at once, or one alone: pools that restart compete with each other.
      const hit = next() < 0.5 ? models : [models[Math.floor(next() * models.length)]];
      const running = hit.map(({ model, want }) =>
        ids(model).then(
          (got) => (got === want ? 'whole' : `other ids: ${got}`),
          (error: { code?: string; message: string }) => error.code ?? error.message,
        ),
      );
      for (let blow = 1 + Math.floor(next() * MOST_BLOWS * hit.length); blow > 0; blow--) {
        await pause(next() < 0.5 ? next() * 5 : next() * MOST_GAP_MS);
        for (let n = next() < 0.2 ? workers.length : 1; n > 0 && workers.length > 0; n--)
          kill(workers[Math.floor(next() * workers.length)]);
      }
      for (const end of await inTime(LIMIT_MS, 'the generations whose workers were killed', Promise.all(running)))
        if (end !== 'whole' && end !== 'ERR_WORKER_LOST') throw new Error(`a generation ended with ${end}`);
      // The last kill may not have been noticed yet. One more generation may be lost, but not a
      // second, because nothing is killed any more.
      for (const { model, want } of hit) {
        const after = await inTime(
          LIMIT_MS,
          'the generation after it',
          ids(model).catch(() => inTime(LIMIT_MS, 'the second generation after it', ids(model))),
        );
        if (after !== want) throw new Error(`the generation after it gave ${after}, expected ${want}`);
      }
    });
    return { ...result, measured: `${kills} workers ended` };
  } finally {
    for (const { model } of models) await model.dispose();
    diagnostics.unsubscribe('worker_threads', collect);
  }
}
