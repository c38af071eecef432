/**
 * The page that `quantlet serve` has at /. scripts/build.mjs builds it and puts it into one file.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  // For development, `npx vite --config page/vite.config.ts` forwards requests to a running
  // `quantlet serve`.
  server: { proxy: { '/v1': 'http://127.0.0.1:8080', '/props': 'http://127.0.0.1:8080' } },
  build: {
    outDir: '../dist/page',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    assetsInlineLimit: 1 << 20,
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
