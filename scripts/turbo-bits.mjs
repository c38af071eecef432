#!/usr/bin/env node
// Writes src/turbo/bits.ts: the checksums that kernels must give with turbo, from the ordinary code
// of dist/wasm.
//
//   node --import tsx scripts/turbo-bits.mjs
//
// To be run after a build, if kernels' results or src/turbo/self-test.ts changed, or a format was
// added.
import { readFileSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { selfTest } from '../src/turbo/self-test.ts';

if (process.versions.node.startsWith('20.')) setFlagsFromString('--experimental-wasm-relaxed-simd');
const root = new URL('../', import.meta.url);
const sums = (build) => selfTest(new WebAssembly.Module(readFileSync(new URL(`dist/wasm/${build}.wasm`, root))), build);
const [simd, relaxed] = ['simd', 'relaxed'].map(sums);
const same = (name) => simd[name] === relaxed[name];
const lines = (kind, is, indent) =>
  Object.entries(kind)
    .filter(([name]) => is(name))
    .map(([name, sum]) => `${indent}${/^\w+$/.test(name) ? name : `'${name}'`}: '${sum}',\n`)
    .join('');
const own = (kind) => `...SAME,\n${lines(kind, (name) => !same(name), '    ')}`;
writeFileSync(
  new URL('src/turbo/bits.ts', root),
  `/** Checksums of src/turbo/self-test.ts with ordinary code, written by scripts/turbo-bits.mjs. */
interface Checksums {
  readonly [kernel: string]: string;
}

/** Kernels that have no multiply-add to fuse. */
const SAME: Checksums = {
${lines(simd, same, '  ')}};

/** With fused multiply-adds (relaxed) and without (simd). */
export const EXPECTED: { readonly [kind in 'simd' | 'relaxed']: Checksums } = {
  simd: {
    ${own(simd)}  },
  relaxed: {
    ${own(relaxed)}  },
};
`,
);
