/** quantlet in Chromium: the package's browser entry, bundled, on a page of peers/chromium.ts. */
import { resolve } from 'node:path';
import { build } from 'esbuild';
import { cache, root } from '../support.ts';
import type { EnginePage } from './chromium.ts';

/**
 * quantlet as a page uses it, through loadModel and generate. Its first result is 'load', in loads
 * per second.
 */
export async function quantletPage(): Promise<EnginePage> {
  const folder = resolve(cache, 'bench-browser');
  await build({
    entryPoints: [resolve(root, 'dist/entry/browser.js')],
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    outdir: folder,
    logLevel: 'error',
  });
  return {
    folders: { '/quantlet/': folder },
    script: `
import { loadModel } from '/quantlet/browser.js';
window.measure = async ({ threads, repetitions, tests }) => {
  const contextLength = Math.max(...tests.map(([, tokens]) => tokens)) + 16;
  const model = await loadModel('/model', { threads, contextLength, cache: false });
  let turn = 0;
  // Another first token every time: nothing of the last prompt can be used again.
  const ids = (n) => { turn++; return Array.from({ length: n }, (_, i) => (3 + (turn * 13 + i) * 7) % 500); };
  const once = async ([kind, tokens]) => {
    const decodes = kind === 'pp' ? 1 : tokens + 1; // the first new token comes out of the prompt's decode
    const { timings } = await model.generate(ids(kind === 'pp' ? tokens : 1), { maxTokens: decodes, temperature: 0, ignoreEos: true }).result();
    return tokens * 1000 / (kind === 'pp' ? timings.promptMs : timings.predictedMs);
  };
  for (const test of tests) await once(test); // until the browser has compiled what runs often for good
  const results = [{ test: 'load', rate: 1000 / model.stats.loadMs }];
  for (let r = 0; r < repetitions; r++) for (const test of tests) results.push({ test: test.join(':'), rate: await once(test) });
  await model.dispose();
  return results;
};`,
  };
}
