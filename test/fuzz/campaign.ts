/**
 * The base of every fuzz campaign: cases, each with a seed, are run and counted until the time or
 * their number is reached.
 *
 * A campaign is a module of this folder with `export function campaign(options)`. run.mjs gives
 * each build a process of its own; tests run a few seconds of new seeds. Case i of a campaign with
 * seed s has seed s + i, so a failed case can be run again alone by its seed.
 */
import type { Build } from '../../src/wasm/load.ts';

export interface CampaignOptions {
  readonly build: Build;
  /** The most threads that a case may use; 1 for builds without threads. */
  readonly threads: number;
  readonly seed: number;
  /** A campaign ends after this many seconds or cases, whichever comes first. */
  readonly seconds: number;
  readonly cases: number;
}

export interface CampaignResult {
  readonly cases: number;
  readonly failures: readonly { readonly seed: number; readonly message: string }[];
  /** Other measurements, as text. */
  readonly measured?: string;
}

/** A campaign ends after this many failures. */
export const MOST_FAILURES = 5;

/** Calls `one` with one seed after another. An error that it throws is a failure of that seed. */
export async function runCases(
  { seed, seconds, cases }: CampaignOptions,
  one: (seed: number) => void | Promise<void>,
): Promise<CampaignResult> {
  const end = performance.now() + seconds * 1000;
  const failures: { seed: number; message: string }[] = [];
  let done = 0;
  for (; done < cases && (done === 0 || performance.now() < end) && failures.length < MOST_FAILURES; done++) {
    try {
      await one(seed + done);
    } catch (error) {
      failures.push({ seed: seed + done, message: error instanceof Error ? error.message : String(error) });
    }
  }
  return { cases: done, failures };
}

/** Seed of this test run: a new one each time, or QUANTLET_FUZZ_SEED. */
export const newSeed = (): number => Number(process.env.QUANTLET_FUZZ_SEED ?? Date.now() % 2 ** 31);

/** Text of a test's failure: a line for each failed case, '' if none failed. */
export const told = (campaign: string, { failures }: CampaignResult): string =>
  failures.map(({ seed, message }) => `${campaign}, QUANTLET_FUZZ_SEED=${seed}: ${message}`).join('\n');
