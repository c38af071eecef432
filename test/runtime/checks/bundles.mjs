// Every bundler with the configuration of its default template. The result runs in Chromium: with
// threads, with one worker, and under a policy without blob:.
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';
import { ask, questionable } from '../lib/ask.mjs';
import { app, golden, here, model, project, run, start, tool } from '../lib/consumer.mjs';
import { launchChromium } from '../lib/drivers.mjs';
import { serve } from '../lib/server.mjs';
import { modelUrl, pageSources } from '../lib/site.mjs';
import { ROW_MS, freePort } from '../lib/wait.mjs';

const toolRequire = createRequire(join(here, 'package.json'));
const html = (script) =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>loading</title></head><body><script type="module" src="${script}"></script></body></html>`;

/** A project with the test page, as a user would have it. */
async function page(name) {
  const folder = project(`bundle-${name}`);
  await pageSources(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, private: true, type: 'module' }));
  return folder;
}

/** The cost of a user's page: loadModel and generate only, without the test. */
function userPage(name) {
  const folder = project(`size-${name}`);
  writeFileSync(
    join(folder, 'main.mjs'),
    "import { loadModel } from 'quantlet';\nexport const tell = async (url) => (await (await loadModel(url)).generate('Once upon a time').result()).text;\n",
  );
  return folder;
}

/** Opens the built page in each situation and checks native's ids and the chosen build. */
async function drive(origin, path, situations) {
  const chromium = await launchChromium();
  const faults = [];
  const builds = [];
  try {
    for (const [query, threaded] of situations) {
      const tab = await chromium.open(`${origin}${path}${query ? `?${query}` : ''}`);
      const result = await tab.call('tryLoad', { source: modelUrl, golden, options: { threads: 2 } });
      builds.push(result.build ?? result.code);
      if (result.code || result.fault) faults.push(`${query}: ${result.code ?? ''} ${result.message ?? result.fault}`);
      else if (result.build.endsWith('-threads') !== threaded)
        faults.push(`${query || 'plain'}: it chose ${result.build}, expected one with${threaded ? '' : 'out'} threads`);
      for (const error of tab.errors) faults.push(`${query}: ${error}`);
      await tab.close();
    }
  } finally {
    await chromium.close();
  }
  return { faults, relaxed: 'yes', threads: builds.some((b) => b.endsWith('-threads')) ? 'yes' : 'no', checked: builds.join(', ') };
}

const csp = (policy) => `coi=1&csp=${encodeURIComponent(policy)}`;
const SELF_AND_BLOB = csp("script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:");
const SELF_ONLY = csp("script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'");
const PLAIN = [
  ['', false],
  ['coi=1', true],
];

async function driveFolder(folder, situations, index = 'index.html') {
  const server = await serve({ '/': folder, '/model/': join(model, '..') });
  try {
    return await drive(server.origin, `/${index}`, situations);
  } finally {
    await server.close();
  }
}

const packageVersion = (name) => toolRequire(`${name}/package.json`).version;
const kb = (n) => `${(n / 1000).toFixed(0)} KB`;
const gzipped = (file) => gzipSync(readFileSync(file), { level: 9 }).length;
/** Budgets, gzipped: what a page loads first, and everything in one file. */
const FIRST_LOAD = 150_000;
const ONE_FILE = 480_000;

/** Gzipped bytes of a folder's `entry` and of all files that it imports statically. */
function firstLoad(folder, entry) {
  const seen = new Set();
  const visit = (file) => {
    if (seen.has(file) || !existsSync(join(folder, file))) return;
    seen.add(file);
    for (const [, spec] of readFileSync(join(folder, file), 'utf8').matchAll(
      /(?:^|[;}\s])(?:import|export)\s*(?:[\w*{}\s,$]+from\s*)?["']\.\/([^"']+)["']/g,
    ))
      visit(spec);
  };
  visit(entry);
  return [...seen].reduce((n, f) => n + gzipped(join(folder, f)), 0);
}

const esbuildRow = (splitting) => ({
  name: `esbuild ${splitting ? '--splitting' : '(one file)'}`,
  async run() {
    const folder = await page(`esbuild-${splitting}`);
    const options = { bundle: true, splitting, format: 'esm', minify: true, logLevel: 'error' };
    await esbuild.build({ ...options, entryPoints: [join(folder, 'page.mjs')], outdir: join(folder, 'out') });
    writeFileSync(join(folder, 'out/index.html'), html('page.js'));
    const result = await driveFolder(join(folder, 'out'), [...PLAIN, [SELF_AND_BLOB, true]]);
    const user = userPage(`esbuild-${splitting}`);
    await esbuild.build({ ...options, entryPoints: [join(user, 'main.mjs')], outdir: join(user, 'out') });
    const size = splitting ? firstLoad(join(user, 'out'), 'main.js') : gzipped(join(user, 'out/main.js'));
    // Files that a page with threads has loaded once a model runs: kernels, worker and chats come on
    // demand.
    const later = splitting
      ? readdirSync(join(user, 'out'))
          .filter((f) => /^(relaxed|worker|conversations)-/.test(f))
          .reduce((n, f) => n + gzipped(join(user, 'out', f)), size)
      : 0;
    const budget = splitting ? FIRST_LOAD : ONE_FILE;
    if (size > budget) result.faults.push(`${splitting ? 'the first load' : 'the bundle'} is ${size} bytes gzipped, the budget ${budget}`);
    return {
      ...result,
      version: esbuild.version,
      checked: `${result.checked}; gzipped ${kb(size)} ${splitting ? `first, ${kb(later)} with kernels, worker and chats` : 'in all'}`,
    };
  },
});

/** Vite by its own command, without a configuration. */
const viteBuild = {
  name: 'Vite build',
  async run() {
    const folder = await page('vite');
    writeFileSync(join(folder, 'index.html'), html('/page.mjs'));
    await run(process.execPath, [tool('vite/bin/vite.js'), 'build', '--logLevel', 'error'], { cwd: folder });
    const result = await driveFolder(join(folder, 'dist'), [...PLAIN, [SELF_AND_BLOB, true], [SELF_ONLY, true]]);
    return { ...result, version: packageVersion('vite') };
  },
};

const viteDev = {
  name: 'Vite dev',
  async run() {
    const folder = await page('vite-dev');
    mkdirSync(join(folder, 'public/model'), { recursive: true });
    copyFileSync(model, join(folder, 'public', modelUrl));
    writeFileSync(join(folder, 'index.html'), html('/page.mjs'));
    const port = await freePort();
    const server = await start(
      process.execPath,
      [tool('vite/bin/vite.js'), '--port', String(port), '--strictPort', '--host', '127.0.0.1'],
      /Local:|ready in/,
      { cwd: folder },
    );
    try {
      return { ...(await drive(`http://127.0.0.1:${port}`, '/', [['', false]])), version: packageVersion('vite') };
    } finally {
      await server.stop();
    }
  },
};

const webpack = {
  name: 'webpack',
  async run() {
    const folder = await page('webpack');
    const compile = toolRequire('webpack');
    const stats = await new Promise((resolve, reject) =>
      compile({ mode: 'production', context: folder, entry: './page.mjs', output: { path: join(folder, 'dist') } }, (error, done) =>
        error ? reject(error) : resolve(done),
      ),
    );
    if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
    writeFileSync(join(folder, 'dist/index.html'), html('main.js'));
    const result = await driveFolder(join(folder, 'dist'), [...PLAIN, [SELF_AND_BLOB, true], [SELF_ONLY, true]]);
    if (stats.hasWarnings()) {
      const warnings = stats.toJson({ all: false, warnings: true }).warnings.filter((w) => !/size limit|performance/.test(w.message));
      for (const w of warnings) result.faults.push(`warning: ${w.message.slice(0, 300)}`);
    }
    return { ...result, version: packageVersion('webpack') };
  },
};

/**
 * The example with its configuration and an additional edge route; then without
 * serverExternalPackages, where the error must say what to do.
 */
const next = {
  name: 'Next (Turbopack): server, browser and edge',
  async run() {
    const faults = [];
    const folder = project('next');
    const bin = tool('next/dist/bin/next');
    // The example's own node_modules: Next looks for its packages next to the app.
    const env = { NEXT_TELEMETRY_DISABLED: '1', MODEL: model };
    mkdirSync(join(folder, 'app/api/edge'), { recursive: true });
    writeFileSync(
      join(folder, 'app/api/edge/route.js'),
      `
      import { loadModel } from 'quantlet';
      export const runtime = 'edge';
      export async function GET(request) {
        const model = await loadModel(new URL('/api/model', request.url));
        const { ids } = await model.generate(${JSON.stringify(golden.prompt_ids)}, { temperature: 0, maxTokens: ${golden.ids.length}, ignoreEos: true }).result();
        return Response.json({ ids, build: model.build });
      }`,
    );
    await run(process.execPath, [bin, 'build'], { cwd: folder, env, timeout: ROW_MS });
    const port = await freePort();
    let server = await start(process.execPath, [bin, 'start', '-p', String(port), '-H', '127.0.0.1'], /Ready in|ready on/i, {
      cwd: folder,
      env: { ...env, ...questionable },
    });
    const chromium = await launchChromium();
    try {
      const { text: story } = await ask(server, `http://127.0.0.1:${port}/api/story?n=20`, "the server's story");
      if (!/^, there was a little girl/.test(story)) faults.push(`the server's story is ${JSON.stringify(story.slice(0, 200))}`);
      const { text: edge } = await ask(server, `http://127.0.0.1:${port}/api/edge`, 'the edge route');
      if (!edge.includes(golden.ids.slice(0, 20).join()) || !edge.includes('"simd"'))
        faults.push(`the edge route gave ${edge.slice(0, 300)}`);
      const tab = await chromium.context.newPage();
      await tab.goto(`http://127.0.0.1:${port}/`);
      await tab.getByRole('button', { name: 'in this browser' }).click();
      await tab.waitForFunction(() => document.querySelector('#browser').textContent.length > 50);
      const told = await tab.textContent('#browser');
      if (!/^, there was a little girl/.test(told)) faults.push(`the browser's story is ${JSON.stringify(told.slice(0, 200))}`);
      await server.stop();

      writeFileSync(join(folder, 'next.config.mjs'), 'export default {};\n');
      rmSync(join(folder, '.next'), { recursive: true });
      rmSync(join(folder, 'app/api/edge'), { recursive: true });
      await run(process.execPath, [bin, 'build'], { cwd: folder, env, timeout: ROW_MS });
      server = await start(process.execPath, [bin, 'start', '-p', String(port), '-H', '127.0.0.1'], /Ready in|ready on/i, {
        cwd: folder,
        env: { ...env, ...questionable },
      });
      const { response, text: bundled } = await ask(
        server,
        `http://127.0.0.1:${port}/api/story?n=20`,
        'the story without serverExternalPackages',
        { broken: () => '' },
      );
      const said = server.output();
      const works = /^, there was a little girl/.test(bundled);
      if (!works && !(said.includes('ERR_BUNDLED') && said.includes('serverExternalPackages')))
        faults.push(`without serverExternalPackages: ${response.status}, the server said ${said.slice(-600)}`);
      return {
        faults,
        version: packageVersion('next'),
        relaxed: 'yes',
        threads: 'yes',
        checked: `story on the server, in the browser, on the edge (simd); without serverExternalPackages: ${works ? 'works' : 'ERR_BUNDLED'}`,
      };
    } finally {
      await chromium.close();
      await server.stop();
    }
  },
};

/**
 * The page of examples/static: the package in one file and the unchanged page, on a host that only
 * serves files.
 */
const oneFile = {
  name: 'examples/static (one file, any static host)',
  async run() {
    const folder = project('static');
    await esbuild.build({
      entryPoints: [join(folder, 'quantlet.js')],
      bundle: true,
      minify: true,
      format: 'esm',
      outfile: join(folder, 'dist/quantlet.js'),
      logLevel: 'error',
    });
    copyFileSync(join(folder, 'index.html'), join(folder, 'dist/index.html'));
    copyFileSync(model, join(folder, 'dist/model.gguf'));
    const server = await serve({ '/deep/down/': join(folder, 'dist') });
    const chromium = await launchChromium();
    const faults = [];
    const builds = [];
    try {
      for (const [query, threaded] of PLAIN) {
        const page = await chromium.context.newPage();
        page.on('pageerror', (error) => faults.push(`${query}: ${error.message}`));
        await page.goto(`${server.origin}/deep/down/${query ? `?${query}` : ''}`);
        await page.waitForFunction(() => ['Done', 'Failed'].includes(document.title));
        const status = await page.textContent('#status');
        const told = await page.textContent('#story');
        builds.push(/build ([\w-]+)/.exec(status)?.[1] ?? status);
        if (!/^, there was a little girl/.test(told))
          faults.push(`${query || 'plain'}: ${status}; the story is ${JSON.stringify(told.slice(0, 100))}`);
        if (builds.at(-1).endsWith('-threads') !== threaded) faults.push(`${query || 'plain'}: it chose ${builds.at(-1)}`);
        await page.close();
      }
      const kernels = server.requests.filter(({ path }) => !/\/(quantlet\.js|model\.gguf|favicon\.ico)?$/.test(path));
      if (kernels.length > 0) faults.push(`it asked for ${kernels[0].path} too`);
    } finally {
      await chromium.close();
      await server.close();
    }
    return { faults, version: esbuild.version, relaxed: 'yes', threads: 'yes', checked: builds.join(', ') };
  },
};

export const bundles = [esbuildRow(true), esbuildRow(false), viteBuild, viteDev, webpack, next, oneFile];
