/** V8's 256-bit revectoriser (`turbo`) joins what the compiler wrote for 128 bits: every packed product gives the same bits with it, in a process of its own. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const TYPES = ['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_K', 'q3_K', 'q4_K', 'q5_K', 'q6_K', 'iq4_nl', 'iq4_xs', 'mxfp4', 'f32', 'f16', 'bf16'];
/** Often enough for the optimising compiler to have its turn. */
const TIMES = 150;

const script = `
  const [url, build] = process.argv.slice(1), { createHash } = await import('node:crypto'), core = await import(url);
  const engine = await core.createEngine({ build, threads: 1 }), wave = (n) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898) * 3);
  for (const type of ${JSON.stringify(TYPES)}) for (const m of [1, 3, 7, 16, 40]) {
    const f = engine.tensor('f32', [512, 48], wave(512 * 48)), w = engine.tensor(type, [512, 48]), x = engine.tensor('f32', [512, m], wave(512 * m));
    await engine.compute(engine.plan(core.cpy(f, w)));
    await engine.pack(w);
    const y = core.mul_mat(w, x), plan = engine.plan(y);
    for (let i = 0; i < ${TIMES}; i++) await engine.compute(plan);
    console.log(type, m, createHash('sha256').update(new Uint8Array(engine.read(y).buffer)).digest('hex').slice(0, 16));
  }
  await engine.dispose();
`;

/** A line for each type and number of columns. */
async function bits(build: string, flags: readonly string[]): Promise<string[]> {
  const url = new URL('../../dist/entry/core-node.js', import.meta.url).href;
  return (await promisify(execFile)(process.execPath, [...flags, '--input-type=module', '-e', script, url, build])).stdout.trim().split('\n');
}

// Older versions have no revectoriser; the command line's turbo is a no-op there.
const BUILDS = Number.parseInt(process.versions.node) >= 24 && process.arch === 'x64' ? ['simd', 'relaxed', 'dotadd'] : [];
it.each(BUILDS)('%s: the same bits', async (build) => {
  const plain = await bits(build, []);
  expect(plain).toHaveLength(TYPES.length * 5);
  expect(await bits(build, ['--experimental-wasm-revectorize'])).toEqual(plain);
});
if (BUILDS.length === 0) it('this version has no revectoriser', () => expect(Number.parseInt(process.versions.node) < 24 || process.arch !== 'x64').toBe(true));
