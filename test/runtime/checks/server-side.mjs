// Runs under Node, Deno and Bun: every build's kernels, then the model on every build that this
// runtime supports. Prints a line of JSON.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { loadModel } from 'quantlet';
import { decodeImage } from './decode.mjs';
import { runAll, runModel, runPictures, withThreads } from './portable.mjs';

const golden = JSON.parse(readFileSync(new URL('./golden.json', import.meta.url), 'utf8'));
const source = process.argv[2];
const first = await runModel(loadModel, source, golden);
const runs = [];
const modules = {};
for (const build of ['simd', 'relaxed', 'dotadd', 'simd-threads', 'relaxed-threads', 'dotadd-threads']) {
  for (const threads of build.endsWith('-threads') ? [2, 3] : [1]) runs.push({ build, threads });
}
// Layers in several memories, as for models of more than 4 GiB.
runs.push({ links: 3 }, { build: 'simd', threads: 1, links: 3 });
// Loading a relaxed build sets Node 20's flag, so this comes before the kernels of relaxed builds
// are compiled.
await runModel(loadModel, source, golden, { build: 'relaxed', threads: 1 });
// The package makes builds with threads from those without.
for (const { build } of runs.filter((run) => run.build)) {
  const bytes = readFileSync(fileURLToPath(import.meta.resolve(`quantlet/wasm/${build.replace('-threads', '')}.wasm`)));
  modules[build] ??= await WebAssembly.compile(build.endsWith('-threads') ? withThreads(bytes) : bytes);
}
const out = await runAll({ loadModel, source, golden, modules, runs });
const pictures = JSON.parse(readFileSync(new URL('./vision.json', import.meta.url), 'utf8'));
out.pictures = await runPictures({ loadModel, decodeImage, ...pictures });
out.models.push({ ...first, build: 'default' });
console.log(JSON.stringify(out));
