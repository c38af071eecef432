/** The builds that tests run on, and with how many threads. No test has a list of its own that leaves one out; plain-summary.ts counts what ran. */
import { BUILDS as ALL, detectFeatures, isThreaded, type Build } from '../src/wasm/load.ts';

/** All of them; only those with a dot-add not where it is computed wrong, as on Node 20, which refuses them (src/wasm/load.ts). */
export const BUILDS: readonly Build[] = ALL.filter((build) => !build.startsWith('dotadd') || detectFeatures().dotAdd !== 'wrong');

/** Every build, those with threads with even and odd splits. */
export const RUNS: readonly (readonly [build: Build, threads: number])[] = BUILDS.flatMap((build) =>
  (isThreaded(build) ? [1, 2, 3] : [1]).map((threads) => [build, threads] as const),
);

/** Folders of tests in which every build must have passed a test, and the name of a build in a test's name. */
export const EVERY_BUILD = ['kernel', 'ops', 'arch', 'model'] as const;
export const BUILD_NAME = /\b(simd|relaxed|dotadd)(-threads)?\b/g;
