import { defineConfig } from 'vite';

// With these headers the page is cross-origin isolated, and the model runs on several threads.
const headers = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

export default defineConfig({ base: './', server: { headers }, preview: { headers }, oxc: { jsx: { runtime: 'automatic' } } });
