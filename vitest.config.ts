import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { tellingForks } from './test/forks.ts';
import { notOnWindows } from './test/not-on-windows.ts';
import { PlainSummary } from './test/plain-summary.ts';
import { TURBO_FLAGS } from './src/turbo/compile.ts';

const onWindows = process.platform === 'win32';
const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: {
      'quantlet/core': at('./dist/entry/core-node.js'),
      'quantlet/tools': at('./dist/entry/tools.js'),
      quantlet: at('./dist/entry/node.js'),
      '../inline/page.js': at('./dist/inline/page.js'),
    },
  },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/runtime/**', ...(onWindows ? notOnWindows.filter(({ tests }) => !tests).map(({ file }) => file) : [])],
    testTimeout: 60_000,
    setupFiles: ['test/where-it-stood.ts', ...(onWindows ? ['test/windows-setup.ts'] : [])],
    pool: tellingForks,
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
