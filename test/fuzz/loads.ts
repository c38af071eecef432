/**
 * Loads intact files again and again from disk, with 1 to `threads` threads, several at once to
 * keep the cores busy. Their SHA-256 is known. So the file is not at fault if a load finds Inf or
 * NaN, or gives other tokens than the first.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as Entry from '../../src/entry/node.ts';
import { inTime } from '../../src/threads/where.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { entryUrl, llamaModel, shippedModel } from '../support.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { below, pick } from './mutate.ts';

const LIMIT_MS = 120_000;
/** Simultaneous loads of a case. */
const AT_ONCE = 6;
const hashOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  const { loadModel } = (await import(entryUrl)) as typeof Entry;
  const folder = mkdtempSync(join(tmpdir(), 'quantlet-loads-'));
  try {
    // Copies that no other process rewrites.
    const files = [shippedModel, llamaModel].map((from, i) => {
      const path = join(folder, `${i}.gguf`);
      copyFileSync(from, path);
      return { path, hash: hashOf(path), want: '' };
    });
    const load = async (next: () => number): Promise<void> => {
      const file = pick(next, files);
      const threads = isThreaded(options.build) ? 1 + below(next, options.threads) : 1;
      const fault = (what: string, cause?: unknown): Error =>
        new Error(`${threads} threads ${what}; the file's SHA-256 is ${hashOf(file.path) === file.hash ? 'right' : 'another now'}`, {
          cause,
        });
      let got: string;
      try {
        const model = await inTime(
          LIMIT_MS,
          'loading',
          loadModel(file.path, { build: options.build, threads, warmUp: next() < 0.1, contextLength: 64 }),
        );
        try {
          got = `${model.internals.engine.fingerprint}: ${(await inTime(LIMIT_MS, 'generating', model.generate([5, 40, 7, 3], { temperature: 0, maxTokens: 3, ignoreEos: true }).result())).ids.join(' ')}`;
        } finally {
          await model.dispose();
        }
      } catch (error) {
        throw fault(`failed: ${(error as Error).message}`, error);
      }
      file.want ||= got;
      if (got !== file.want) throw fault(`gave ${got}, expected ${file.want}`);
    };
    const result = await runCases(options, async (seed) => {
      const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, (_, i) => load(seeded(seed * AT_ONCE + i))));
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
    });
    return { ...result, measured: `${result.cases * AT_ONCE} loads` };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
