/**
 * What every fuzz campaign is made of: cases with a seed each, counted, until the time or the number is up.
 *
 * A campaign is a module of this folder with `export function campaign(options)`; run.mjs gives each build a process of its own, and tests run a few
 * seconds of new seeds. Case i of a campaign with seed s is the case with seed s + i: a failure is run again alone with its own seed.
 */
import type { Build } from '../../src/wasm/load.ts';

export interface CampaignOptions {
  readonly build: Build;
  /** The most threads that a case may take: 1 where the build has none. */
  readonly threads: number;
  readonly seed: number;
  /** Ends after so many seconds, or after so many cases, whichever comes first. */
  readonly seconds: number;
  readonly cases: number;
}

export interface CampaignResult {
  readonly cases: number;
  readonly failures: readonly { readonly seed: number; readonly message: string }[];
  /** What else was measured, for people. */
  readonly measured?: string;
}

/** A campaign that only ever fails need not go on. */
export const MOST_FAILURES = 5;

/** Calls `one` with seed after seed; what it throws is a failure of that seed. */
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

/** Of this run of the tests: another each time, or the one that QUANTLET_FUZZ_SEED names. */
export const newSeed = (): number => Number(process.env.QUANTLET_FUZZ_SEED ?? Date.now() % 2 ** 31);

/** The text of a test's failure: empty where there is none. */
export const told = (campaign: string, { failures }: CampaignResult): string =>
  failures.map(({ seed, message }) => `${campaign}, QUANTLET_FUZZ_SEED=${seed}: ${message}`).join('\n');
