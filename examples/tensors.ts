// quantlet/core: multiplies a q4_0 matrix by a vector, prints the chosen kernels, and uses a weight
// of a model's file. docs/tensors.md explains it.
//   npx tsx examples/tensors.ts        (Node 22.18 and later: node examples/tensors.ts)
import { fileURLToPath } from 'node:url';
import { cpy, createEngine, explain, mul_mat, rms_norm, type MulMatOptions } from 'quantlet/core';

const [k, n] = [256, 64];
const engine = await createEngine();
console.log(`build ${engine.build}, ${engine.threads} threads`);

// Shape ne, dimension 0 first as in ggml: n rows of k weights.
const weights = engine.tensor(
  'f32',
  [k, n],
  Float32Array.from({ length: k * n }, (_, i) => Math.sin(i)),
);
const matrix = engine.tensor('q4_0', [k, n], { name: 'matrix' });
await engine.compute(engine.plan(cpy(weights, matrix))); // quantises

const x = engine.tensor('f32', [k], { name: 'x', data: Float32Array.from({ length: k }, (_, i) => Math.cos(i)) });

/** Multiplies, prints the chosen kernels, and returns the result. */
async function multiply(title: string, options?: MulMatOptions): Promise<Float32Array> {
  const y = mul_mat(matrix, x, options);
  const plan = engine.plan(y);
  console.log(`\n${title}\n${explain(plan)}`);
  await engine.compute(plan);
  const result = engine.read(y);
  plan.dispose();
  return result;
}

const quantised = await multiply('activations quantised too (the default)');
const dequantised = await multiply('weights dequantised', { precision: 'f32' });
await engine.pack(matrix);
const packed = await multiply('weights packed: rows interleaved for the GEMV');

const exact = Float32Array.from({ length: n }, (_, row) => {
  let sum = 0;
  for (let i = 0; i < k; i++) sum += Math.sin(row * k + i) * Math.cos(i);
  return sum;
});
const distance = (y: Float32Array): number =>
  Math.sqrt(y.reduce((sum, v, i) => sum + (v - exact[i]) ** 2, 0) / exact.reduce((sum, v) => sum + v * v, 0));
console.log(
  `\nrelative distance from the unquantised product: ${[quantised, dequantised, packed].map((y) => distance(y).toFixed(4)).join(', ')}`,
);

// Weights of a model's file, and options by name.
const norm = await engine.load(fileURLToPath(new URL('../models/tiny-stories-q4_0.gguf', import.meta.url)), 'output_norm.weight');
const normed = rms_norm(x, { weight: norm, eps: 1e-5 });
await engine.compute(engine.plan(normed));
console.log(`\nrms_norm with ${norm.name}: ${[...engine.read(normed).subarray(0, 4)].map((v) => v.toFixed(4)).join(', ')} ...`);
await engine.dispose();
