// workerd: the kernels of every build without threads, and the model; then the Cloudflare example
// as wrangler bundles it, streaming.
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { app, golden, here, project, run, start, tool } from '../lib/consumer.mjs';
import { judge } from '../lib/judge.mjs';
import { greedyFault } from '../lib/portable.mjs';
import { bundleDecoder, visionFolder, visionGolden, visionModel, visionProjector } from '../lib/vision.mjs';
import { serve } from '../lib/server.mjs';
import { freePort, STEP_MS, until } from '../lib/wait.mjs';

export const workerd = () => tool('@cloudflare/workerd-linux-64/bin/workerd');
export const version = async () => (await run(workerd(), ['--version'])).stdout.trim().replace(/^workerd /, '');
const kinds = { js: 'esModule', mjs: 'esModule', wasm: 'wasm', bin: 'data' };

/**
 * workerd's configuration for the modules of a folder. The first one is the worker.
 * @param vars texts in the worker's environment
 */
export function configure(folder, main, port, vars = {}) {
  const modules = [main, ...readdirSync(folder).filter((f) => f !== main && kinds[f.split('.').at(-1)])];
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker), (name = "net", network = (allow = ["public", "private", "local"]))],
  ${port ? `sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],` : ''}
);
const worker :Workerd.Worker = (
  compatibilityDate = "2026-01-01",
  compatibilityFlags = ["enable_request_signal"],
  globalOutbound = "net",
  bindings = [${Object.entries(vars)
    .map(([name, text]) => `(name = "${name}", text = "${text}")`)
    .join(', ')}],
  modules = [${modules.map((f) => `(name = "${f}", ${kinds[f.split('.').at(-1)]} = embed "${f}")`).join(', ')}],
);
`;
  writeFileSync(join(folder, 'config.capnp'), config);
}

/** Leaves .wasm and .bin imports to workerd, as modules next to the bundle. */
export const modules = (folder) => ({
  name: 'modules',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /\.(wasm|bin)$/ }, async ({ path, pluginData, ...rest }) => {
      if (pluginData?.again) return undefined;
      const { path: file } = await resolve(path, { ...rest, pluginData: { again: true } });
      const name = `${path.split('/').at(-1)}`;
      copyFileSync(file, join(folder, name));
      return { path: name, external: true };
    });
  },
});

const everyBuild = {
  name: 'workerd',
  async run(reference) {
    const folder = join(app, 'workerd-test');
    mkdirSync(folder, { recursive: true });
    copyFileSync(join(here, 'lib/portable.mjs'), join(folder, 'portable.src.mjs'));
    await bundleDecoder(folder);
    mkdirSync(join(folder, 'files'), { recursive: true });
    copyFileSync(join(visionFolder, visionModel), join(folder, 'files/seeing.bin'));
    copyFileSync(join(visionFolder, visionProjector), join(folder, 'files/mmproj.bin'));
    writeFileSync(
      join(folder, 'main.src.mjs'),
      `
      import { loadModel } from 'quantlet';
      import simd from 'quantlet/wasm/simd.wasm';
      import relaxed from 'quantlet/wasm/relaxed.wasm';
      import bytes from 'quantlet/models/tiny-stories-q4_0.bin';
      import seeing from './files/seeing.bin';
      import mmproj from './files/mmproj.bin';
      import { decodeImage } from './decode.mjs';
      import { runAll, runPictures } from './portable.src.mjs';
      export default {
        async test() {
          const out = await runAll({ loadModel, source: bytes, golden: ${JSON.stringify(golden)}, modules: { simd, relaxed }, runs: [{}, { wasm: simd }, { wasm: relaxed }] });
          out.pictures = await runPictures({ loadModel, decodeImage, source: seeing, mmproj, golden: ${JSON.stringify(visionGolden)} });
          const model = await loadModel(bytes);
          out.memoryBytes = model.stats.memoryBytes;
          console.log('RESULT ' + JSON.stringify(out));
        },
      };`,
    );
    await build({
      entryPoints: { main: join(folder, 'main.src.mjs') },
      bundle: true,
      format: 'esm',
      outdir: folder,
      conditions: ['workerd', 'worker', 'browser'],
      plugins: [modules(folder)],
      logLevel: 'error',
    });
    configure(folder, 'main.js');
    const { stdout, stderr } = await run(workerd(), ['test', 'config.capnp'], { cwd: folder });
    const out = JSON.parse(/RESULT (.*)/.exec(stdout + stderr)[1]);
    const result = judge(out, reference);
    if (out.memoryBytes > 64 << 20) result.faults.push(`the model takes ${out.memoryBytes} bytes of an isolate's 128 MB`);
    return { ...result, version: await version(), checked: `${result.checked}, ${(out.memoryBytes / 2 ** 20).toFixed(1)} MiB` };
  },
};

const wrangled = {
  name: 'wrangler (dry run), its bundle in workerd, streaming',
  async run() {
    const folder = project('cloudflare-worker');
    const out = join(folder, 'out');
    // wrangler may need a newer Node than this one.
    await run(tool('node-24/bin/node'), [tool('wrangler/bin/wrangler.js'), 'deploy', '--dry-run', '--outdir', out], {
      cwd: folder,
      env: { WRANGLER_SEND_METRICS: 'false', CI: '1' },
    });
    const port = await freePort();
    const files = await serve({ '/vision/': visionFolder });
    const [MODEL, MMPROJ] = [visionModel, visionProjector].map((name) => `${files.origin}/vision/${name}`);
    configure(out, 'index.js', port, { MODEL, MMPROJ });
    const server = await start(workerd(), ['serve', '--verbose', 'config.capnp'], /listening|started|/, { cwd: out });
    try {
      const faults = [];
      const url = `http://127.0.0.1:${port}/?prompt=&temperature=0&n=${golden.ids.length}`;
      const response = await until('workerd to listen', () => fetch(url, { signal: AbortSignal.timeout(STEP_MS) }));
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let text = '';
      let reads = 0;
      let first = 0;
      let last = 0;
      for (let part; !(part = await reader.read()).done; reads++) {
        text += decoder.decode(part.value, { stream: true });
        last = performance.now();
        first ||= last;
      }
      const events = text
        .split('\n\n')
        .filter(Boolean)
        .map((e) => e.replace(/^data: /, ''));
      if (events.at(-1) !== '[DONE]') faults.push(`the stream ended with ${JSON.stringify(events.at(-1))}`);
      const ids = events
        .slice(0, -1)
        .map((e) => JSON.parse(e).id)
        .filter((id) => id >= 0);
      if (ids.length < events.length - 2)
        faults.push(`${events.length} events for ${ids.length} tokens: expected one a token, the end, and what a cut character left`);
      const fault = greedyFault(ids, { ...golden, ids: golden.ids.slice(0, ids.length) });
      if (fault || ids.length < 20) faults.push(`${ids.length} ids; ${fault}`);
      // A slow reader finds several events in a piece. Without streaming everything comes in one
      // piece, or in one and the end.
      if (reads < 4 || last - first < 1)
        faults.push(
          `${ids.length} tokens came in ${reads} pieces within ${(last - first).toFixed(1)} ms: not streamed (pieces may hold a few events, where the reader is slower)`,
        );
      const picture = Buffer.from(visionGolden.pictures['shapes.png'].data, 'base64');
      const post = (body) => fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, signal: AbortSignal.timeout(STEP_MS) });
      const [seen, broken] = [await post(picture), await post('no picture')];
      const [said, { code }] = [await seen.text(), await broken.json()];
      if (!seen.ok || said === '') faults.push(`the answer to a picture is ${seen.status}, ${JSON.stringify(said.slice(0, 200))}`);
      if (code !== 'ERR_IMAGE_INVALID') faults.push(`what is no picture gives ${code}`);
      return {
        faults,
        version: await version(),
        relaxed: 'yes',
        threads: 'no',
        checked: `a picture; ${ids.length} events in ${reads} pieces over ${(last - first).toFixed(0)} ms`,
      };
    } finally {
      await server.stop();
      await files.close();
    }
  },
};

export const edges = [everyBuild, wrangled];
