/**
 * Turbo's effect on the code itself, without timing. With --trace-wasm-revectorize, V8 reports for
 * each function which 128-bit operations it joined into 256-bit ones. Runs in separate processes,
 * because flags are per process.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cliPath, llamaModel, runCli, temporaryFolder } from '../support.ts';

const hasRevectoriser = process.arch === 'x64' && Number.parseInt(process.versions.node) >= 24;
const folder = temporaryFolder();
const model = llamaModel.replace('llama.gguf', 'llama-q4_0.gguf');

/**
 * Counts joined pairs per operation in a run of the command line: a prompt of 17 tokens (GEMM) and
 * 3 steps (GEMV).
 */
function joined(build: string, ...flags: string[]): ReadonlyMap<string, number> {
  // One compilation task keeps lines whole. Without turbo too, the optimising compiler compiles
  // everything.
  const v8 = ['--trace-wasm-revectorize', '--no-liftoff', '--wasm-num-compilation-tasks=1'];
  const args = ['run', '-m', model, '-p', 'the cat sat on the mat and', '-n', '4', '--ignore-eos', '--build', build, ...flags];
  const { NODE_OPTIONS: _, QUANTLET_BUILD: __, ...env } = process.env;
  const path = join(folder, 'trace.txt');
  const file = openSync(path, 'w'); // V8 loses trace output that a pipe does not take at once
  const { status, stderr } = spawnSync(process.execPath, [...v8, cliPath, ...args], {
    env,
    stdio: ['ignore', file, 'pipe'],
    encoding: 'utf8',
  });
  closeSync(file);
  expect(status, stderr).toBe(0);
  const stdout = readFileSync(path, 'latin1');
  const operations = new Map<string, number>();
  for (const [, , nodes] of stdout.matchAll(/Decided? to vectorize, (\d+) revectorizable nodes:\n((?:Revec: Print \d+: .*\n)*)/g)) {
    for (const [, name] of nodes.matchAll(/: (?:Simd128\w+\[|\[)?(\w+)\]?\(#\d+, #\d+\)/g))
      operations.set(name, (operations.get(name) ?? 0) + 1);
  }
  return operations;
}

/** The product operation in each build's loops. */
const PRODUCTS = { simd: 'I32x4DotI16x8S', relaxed: 'I16x8DotI8x16I7x16S', dotadd: 'I32x4DotI8x16I7x16AddS' } as const;

describe.each(Object.entries(PRODUCTS))('%s', (build, product) => {
  if (hasRevectoriser) {
    it(`with --turbo: ${product}, loads, sums and stores are joined`, () => {
      const operations = joined(build, '--turbo');
      // Only kernels that the run calls are compiled: q4_0's GEMM and GEMV, which have 12 pairs of
      // products on the 8-bit builds.
      expect(operations.get(product) ?? 0, [...operations].join(' ')).toBeGreaterThanOrEqual(12);
      for (const other of ['Load', 'Store', 'F32x4Mul'])
        expect(operations.get(other) ?? 0, `${other} of ${[...operations].join(' ')}`).toBeGreaterThan(4);
    });
  }

  it('with --no-turbo, or on a version that knows nothing of it, none is', async () => {
    if (hasRevectoriser) expect([...joined(build, '--no-warmup', '--no-turbo')]).toEqual([]);
    else {
      // dotadd needs Node 24 or newer, because older ones compute its products wrong.
      const { code, stderr } = await runCli([
        'run',
        '-m',
        model,
        '-p',
        'a',
        '-n',
        1,
        '--build',
        build === 'dotadd' ? 'simd' : build,
        '--turbo',
      ]);
      expect(code, stderr).toBe(0);
      expect(stderr).toMatch(/turbo is off: it needs /);
    }
  });
});
