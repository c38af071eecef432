import { defineConfig } from 'vitest/config';
import { PlainSummary } from './test/plain-summary.ts';
import { TURBO_FLAGS } from './src/turbo/compile.ts';

export default defineConfig({
  resolve: {
    alias: {
      'quantlet/core': new URL('./dist/entry/core-node.js', import.meta.url).pathname,
      quantlet: new URL('./dist/entry/node.js', import.meta.url).pathname,
      '../inline/page.js': new URL('./dist/inline/page.js', import.meta.url).pathname,
    },
  },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/runtime/**'],
    testTimeout: 60_000,
    setupFiles: ['test/where-it-stood.ts'],
    pool: 'forks',
    maxWorkers: 2,
    reporters: ['default', new PlainSummary()],
    // Node 20 decodes relaxed SIMD only behind this flag; newer versions refuse the flag. `nodes.mjs --turbo`: all kernels of all tests as turbo compiles them.
    execArgv: process.versions.node.startsWith('20.')
      ? ['--experimental-wasm-relaxed-simd']
      : process.env.QUANTLET_TEST_TURBO
        ? [...TURBO_FLAGS]
        : [],
  },
});
