/**
 * The builds that tests run on, and their numbers of threads. Tests use these lists, so that none
 * leaves out a build; plain-summary.ts counts the builds that ran.
 */
import { BUILDS as ALL, detectFeatures, isThreaded, type Build } from '../src/wasm/load.ts';

/** Set by `npm run test:quick` (vitest.quick.config.ts): one kind of build, with threads and without. */
export const isQuick = process.env.QUANTLET_TEST_QUICK !== undefined;
const QUICK: readonly Build[] = ['relaxed', 'relaxed-threads'];

/**
 * All builds. Those with a dot-add are left out if it computes wrong results, as on Node 20, which
 * refuses them (src/wasm/load.ts).
 */
export const BUILDS: readonly Build[] = isQuick
  ? QUICK
  : ALL.filter((build) => !build.startsWith('dotadd') || detectFeatures().dotAdd !== 'wrong');

/** Every build; those with threads also with an even and an odd number of them. */
export const RUNS: readonly (readonly [build: Build, threads: number])[] = BUILDS.flatMap((build) =>
  (isThreaded(build) ? (isQuick ? [2] : [1, 2, 3]) : [1]).map((threads) => [build, threads] as const),
);

/**
 * Folders of tests in which every build must have passed a test, and a pattern for a build in a
 * test's name.
 */
export const EVERY_BUILD = ['kernel', 'ops', 'arch', 'model'] as const;
export const BUILD_NAME = /\b(simd|relaxed|dotadd)(-threads)?\b/g;
