// The test page for browsers: bundled by esbuild with splitting, served with and without isolation.
import { copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { app, golden, here, model, root } from './consumer.mjs';
import { hub } from './page-visits.mjs';
import { serve } from './server.mjs';
import { bundleDecoder, visionFolder, visionGolden, visionModel, visionProjector } from './vision.mjs';

export const modelUrl = '/model/' + golden.model.split('/').at(-1);
export const html = '<!doctype html><meta charset="utf-8"><title>loading</title><script type="module" src="/app/page.js"></script>';

/** Arguments of runPictures() in a page of site(). */
export const vision = { source: `/vision/${visionModel}`, mmproj: `/vision/${visionProjector}`, golden: visionGolden };

/** Writes the modules of the test page to a folder. */
export async function pageSources(folder) {
  for (const file of ['page.mjs', 'portable.mjs']) copyFileSync(join(here, 'lib', file), join(folder, file));
  await bundleDecoder(folder);
}

let bundled;
async function bundle() {
  const source = join(app, 'page');
  mkdirSync(source, { recursive: true });
  await pageSources(source);
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
    { '/vision/': visionFolder, '/app/': out, '/wasm/': join(dist, 'wasm'), '/worker/': join(dist, 'worker'), '/model/': models, ...more },
    {
      '/page': () => ({ type: 'text/html', body: html }),
      ...hub(statSync(model).size),
      '/hub/tester/tiny-GGUF/resolve/main/tiny-Q4_0.gguf': () => ({ type: 'application/octet-stream', body: readFileSync(model) }),
    },
  );
}
