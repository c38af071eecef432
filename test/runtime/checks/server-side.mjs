// Runs under Node, Deno and Bun: every build's kernels, then the model in every build this runtime has. One line of JSON.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { loadModel } from 'quantlet';
import { runKernels, runModel } from './portable.mjs';

const golden = JSON.parse(readFileSync(new URL('./golden.json', import.meta.url), 'utf8'));
const source = process.argv[2];
const out = { kernels: {}, models: [] };
const first = await runModel(loadModel, source, golden);
// Asking for a relaxed build sets Node 20's flag, so this comes before the kernels of relaxed builds are compiled.
for (const build of ['simd', 'relaxed', 'simd-threads', 'relaxed-threads']) {
  for (const threads of build.endsWith('-threads') ? [2, 3] : [1]) out.models.push(await runModel(loadModel, source, golden, { build, threads }));
  const module = await WebAssembly.compile(readFileSync(fileURLToPath(import.meta.resolve(`quantlet/wasm/${build}.wasm`))));
  out.kernels[build] = runKernels(module, build.endsWith('-threads'));
}
out.models.push({ ...first, build: 'default' });
console.log(JSON.stringify(out));
