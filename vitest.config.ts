import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: { alias: { quantlet: new URL('./dist/entry/node.js', import.meta.url).pathname } },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/runtime/**'],
    testTimeout: 60_000,
    pool: 'forks',
    // Node 20 decodes relaxed SIMD only behind this flag; newer ones refuse the flag (ground for the version check).
    execArgv: process.versions.node.startsWith('20.') ? ['--experimental-wasm-relaxed-simd'] : [],
  },
});
