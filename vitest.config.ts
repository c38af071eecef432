import { defineConfig } from 'vitest/config';
import { PlainSummary } from './test/plain-summary.ts';

export default defineConfig({
  resolve: { alias: { 'quantlet/core': new URL('./dist/entry/core-node.js', import.meta.url).pathname, quantlet: new URL('./dist/entry/node.js', import.meta.url).pathname } },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/runtime/**'],
    testTimeout: 60_000,
    setupFiles: ['test/where-it-stood.ts'],
    pool: 'forks',
    reporters: ['default', new PlainSummary()],
    // Node 20 decodes relaxed SIMD only behind this flag; newer versions refuse the flag.
    execArgv: process.versions.node.startsWith('20.') ? ['--experimental-wasm-relaxed-simd'] : [],
  },
});
