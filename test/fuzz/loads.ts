/**
 * A sound file loaded again and again, from the disk, with 1 to `threads` threads and cores kept busy: its SHA-256 is checked before and after, so
 * that a load that finds Inf or NaN in it, or gives other tokens than the first, is no fault of the file.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type * as Entry from '../../src/entry/node.ts';
import { inTime } from '../../src/threads/where.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { entryUrl, llamaModel, shippedModel } from '../support.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { below, pick } from './mutate.ts';

const LIMIT_MS = 120_000;
/** Busy for a while, idle for a while. */
const BUSY = '(function work() { for (const end = performance.now() + Math.random() * 50; performance.now() < end;); setTimeout(work, Math.random() * 20); })();';
const hashOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  const { loadModel } = (await import(entryUrl)) as typeof Entry, folder = mkdtempSync(join(tmpdir(), 'quantlet-loads-'));
  const busy = Array.from({ length: availableParallelism() }, () => new Worker(BUSY, { eval: true }));
  try {
    // Copies that nobody else can rewrite.
    const files = [shippedModel, llamaModel].map((from, i) => {
      const path = join(folder, `${i}.gguf`);
      copyFileSync(from, path);
      return { path, hash: hashOf(path), want: '' };
    });
    return await runCases(options, async (seed) => {
      const next = seeded(seed), file = pick(next, files), threads = isThreaded(options.build) ? 1 + below(next, options.threads) : 1;
      let got: string;
      try {
        const model = await inTime(LIMIT_MS, 'loading', loadModel(file.path, { build: options.build, threads, warmUp: next() < 0.1, contextLength: 64 }));
        try {
          got = `${model.state.engine.fingerprint}: ${(await inTime(LIMIT_MS, 'generating', model.generate([5, 40, 7, 3], { temperature: 0, maxTokens: 3, ignoreEos: true }).result())).ids.join(' ')}`;
        } finally {
          await model.dispose();
        }
      } catch (error) {
        throw new Error(`${threads} threads: ${(error as Error).message}; the file's SHA-256 is ${hashOf(file.path) === file.hash ? 'right' : 'another now'}`, { cause: error });
      }
      file.want ||= got;
      if (got !== file.want) throw new Error(`${threads} threads gave ${got}, expected ${file.want}; the file's SHA-256 is ${hashOf(file.path) === file.hash ? 'right' : 'another now'}`);
    });
  } finally {
    await Promise.all(busy.map((worker) => worker.terminate()));
    rmSync(folder, { recursive: true, force: true });
  }
}
