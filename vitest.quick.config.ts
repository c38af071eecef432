import { defineConfig, mergeConfig } from 'vitest/config';
import { SLOW } from './test/quick.ts';
import all from './vitest.config.ts';

// For this process, whose reporter counts builds, and for those of the tests: one kind of build (test/builds.ts).
process.env.QUANTLET_TEST_QUICK = '1';

/** `npm run test:quick`: the tests of vitest.config.ts without slow files. */
export default mergeConfig(all, defineConfig({ test: { exclude: SLOW.flatMap(({ files }) => files) } }));
