// The test page for browsers: bundled by esbuild with splitting, served with and without isolation.
import { copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { app, golden, here, model, root } from './consumer.mjs';
import { hub } from './page-visits.mjs';
import { serve } from './server.mjs';

export const modelUrl = '/model/' + golden.model.split('/').at(-1);
export const html = '<!doctype html><meta charset="utf-8"><title>loading</title><script type="module" src="/app/page.js"></script>';

let bundled;
async function bundle() {
  const source = join(app, 'page');
  mkdirSync(source, { recursive: true });
  for (const file of ['page.mjs', 'portable.mjs']) copyFileSync(join(here, 'lib', file), join(source, file));
  const out = join(source, 'out');
  await build({
    entryPoints: { page: join(source, 'page.mjs') },
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    outdir: out,
    absWorkingDir: app,
    logLevel: 'error',
  });
  return out;
}

/** @param more folders by URL prefix */
export async function site(more = {}) {
  const out = await (bundled ??= bundle());
  const dist = join(app, 'node_modules/quantlet/dist');
  const models = join(root, golden.model, '..');
  return serve(
    { '/app/': out, '/wasm/': join(dist, 'wasm'), '/worker/': join(dist, 'worker'), '/model/': models, ...more },
    {
      '/page': () => ({ type: 'text/html', body: html }),
      ...hub(statSync(model).size),
      '/hub/tester/tiny-GGUF/resolve/main/tiny-Q4_0.gguf': () => ({ type: 'application/octet-stream', body: readFileSync(model) }),
    },
  );
}
