/**
 * Barriers must hold with each of V8's compilers, which users may select by flags.
 *
 * Threads that share cores sleep at barriers. In code of V8's baseline compiler a thread could once
 * leave a barrier before the others (sync.ts, sleep). It showed rarely, while several models were
 * new. With --liftoff-only all code stays baseline, and the fault shows within a second.
 */
import { expect, it } from 'vitest';
import { root, runNode } from '../support.ts';

const entry = JSON.stringify(new URL('dist/entry/core-node.js', root).href);

const SUMS = 99;
const PROGRAM = `
import { add, createEngine } from ${entry};
const use = async () => {
  const engine = await createEngine({ threads: 4, build: 'simd-threads', memoryBytes: 8 << 20 });
  const one = engine.tensor('f32', [16, 64], new Float32Array(16 * 64).fill(1));
  let y = one;
  for (let i = 0; i < ${SUMS}; i++) y = add(y, one); // a barrier before each
  const plan = engine.plan(y);
  for (let i = 0; i < 100; i++) {
    await engine.compute(plan);
    const wrong = (await engine.read(y)).find((v) => v !== ${SUMS + 1});
    if (wrong !== undefined) throw new Error('step ' + i + ' gave ' + wrong + ', expected ${SUMS + 1}');
  }
  await engine.dispose();
};
await Promise.all([use(), use()]);
console.log('right');`;

it('no thread leaves a barrier before all are there, whichever compiler made its code', async () => {
  const { code, stdout, stderr } = await runNode(['--liftoff-only', '--input-type=module', '-e', PROGRAM], { timeout: 60_000 });
  expect({ code, stdout, stderr: stderr.slice(0, 500) }).toEqual({ code: 0, stdout: 'right\n', stderr: '' });
}, 90_000);

it('a process that compiles all kernels at once waits for them', async () => {
  const program = `import { createEngine } from ${entry}; console.log((await createEngine({ threads: 1, build: 'simd' })).build);`;
  const { code, stdout, stderr } = await runNode(['--no-wasm-lazy-compilation', '--input-type=module', '-e', program]);
  expect({ code, stdout, stderr: stderr.slice(0, 500) }).toEqual({ code: 0, stdout: 'simd\n', stderr: '' });
});
