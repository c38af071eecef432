// Runs on another machine (checks/platforms.mjs): kernels of the builds without threads, the main
// job, and every golden model's greedy ids. Models with F32 weights run on builds without threads,
// quantised ones with 2 threads. Prints a line of JSON.
//   node platform-side.mjs GOLDEN-FOLDER BUILDS
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { loadModel } from 'quantlet';
import { runKernels } from './portable.mjs';

const [folder, builds] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(join(folder, name)).href);
const { write } = await module('gguf.mjs');
const { made, sparse } = await module('models.mjs');
const { cases } = JSON.parse(readFileSync(join(folder, 'golden.json'), 'utf8'));
const written = new Map();

function sourceOf(name) {
  const make = made[name] ?? sparse[name];
  if (!make) return join(folder, name);
  if (!written.has(name)) written.set(name, write(make()));
  return written.get(name);
}

/** The margin below which a difference is ignored, as in test/arch/engine.test.ts. */
const allowed = ({ model, largest, noiseF16, noise }) =>
  2 * Math.max((/q4_0|q8_0|mxfp4/.test(model) ? 3e-2 : 2e-3) * largest + noiseF16, noise);

const out = { kernels: {}, models: 0, faults: [] };
for (const build of builds.split(',')) {
  const threads = build.endsWith('-threads') ? 2 : 1;
  if (threads === 1)
    out.kernels[build] = runKernels(
      await WebAssembly.compile(readFileSync(fileURLToPath(import.meta.resolve(`quantlet/wasm/${build}.wasm`)))),
      false,
    );
  for (const c of cases) {
    if (c.pooling || !(c.model.endsWith('.gguf') || c.model.endsWith('-q4_0') === threads > 1)) continue;
    const lora = c.lora ? [{ source: join(folder, c.lora.file), scale: c.lora.scale }] : [];
    const model = await loadModel(sourceOf(c.model), { build, threads, contextLength: c.n_ctx, warmUp: false, lora });
    const { ids } = await model.generate(c.ids, { maxTokens: c.greedy.length, temperature: 0, ignoreEos: true }).result();
    if (model.build !== build || model.threads !== threads) out.faults.push(`${build}: it ran as ${model.build}, ${model.threads} threads`);
    await model.dispose();
    globalThis.gc?.(); // memories under emulation cost more than they hold
    const k = c.greedy.findIndex((id, i) => ids[i] !== id);
    if (k >= 0 && !(c.margins[k] < allowed(c))) out.faults.push(`${build} ${c.model} step ${k}: got ${ids[k]}, native ${c.greedy[k]}`);
    out.models++;
  }
}
console.log(JSON.stringify(out));
