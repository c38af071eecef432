/**
 * The self-test of turbo: ordinary code gives the expected checksums. Code that is wrong, crashes
 * the process or cannot be compiled is reported.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { EXPECTED } from '../../src/turbo/bits.ts';
import { selfTest } from '../../src/turbo/self-test.ts';
import { outcomeOf, runSelfTest, turboVerdict, unavailable } from '../../src/turbo/verdict.ts';
import { isRelaxed } from '../../src/wasm/load.ts';
import { BUILDS, root, temporaryFolder, writeTo } from '../support.ts';

const hasRevectoriser = process.arch === 'x64' && Number.parseInt(process.versions.node) >= 24;
/** The built program: it exists in dist/ only. */
const program = fileURLToPath(new URL('dist/worker/turbo.js', root));
const kernelsOf = (build: string): URL => new URL(`dist/wasm/${build}.wasm`, root);

// If this fails after an intended change of kernels, run scripts/turbo-bits.mjs.
it.each(BUILDS)('%s: ordinary code gives the stored checksums', (build) => {
  expect(selfTest(new WebAssembly.Module(readFileSync(kernelsOf(build))), build)).toEqual(EXPECTED[isRelaxed(build) ? 'relaxed' : 'simd']);
});

if (hasRevectoriser) {
  it.each(BUILDS)('%s: turbo gives them too', async (build) => {
    expect(await runSelfTest(fileURLToPath(kernelsOf(build)), build, { program })).toEqual({ why: '', kept: true });
  });
}

/** Kernels with one wrong constant: the second-last bit of log2(e), in every occurrence. */
function damaged(): string {
  const bytes = readFileSync(kernelsOf('simd'));
  const f32 = Buffer.from(Float32Array.of(Math.LOG2E).buffer);
  expect(bytes.indexOf(f32)).toBeGreaterThan(0);
  for (let at = bytes.indexOf(f32); at >= 0; at = bytes.indexOf(f32, at + 1)) bytes[at] ^= 2;
  return writeTo(temporaryFolder(), 'damaged.wasm', bytes);
}

const ACCESS_VIOLATION = 0xc0000005;
/** Code that ends a process as broken turbo code would. */
const CRASH =
  process.platform === 'win32'
    ? `process.exit(${ACCESS_VIOLATION | 0});`
    : "process.kill(process.pid, 'SIGSEGV'); setTimeout(() => {}, 60000);";

describe('failures are reported', () => {
  const simd = fileURLToPath(kernelsOf('simd'));
  const folder = temporaryFolder();
  const other = (name: string, text: string): string => writeTo(folder, name, text);

  it('wrong bits', async () => {
    const { why, kept } = await runSelfTest(damaged(), 'simd', { flags: [], program });
    expect(why).toMatch(/^its self-test gave different bits for (attention [^,]+, )+attention over a cache$/);
    expect(kept).toBe(true);
  });

  it.each([
    [
      'a flag that V8 does not know',
      { flags: ['--experimental-wasm-no-such-thing'], program },
      /^this V8 has lost a flag \(.*--experimental-wasm-no-such-thing\)$/,
      true,
    ],
    ['a crash', { flags: [], program: other('crash.cjs', CRASH) }, /^its self-test ended with (SIGSEGV|exit code 0xc0000005)$/, true],
    [
      'an abort of V8',
      { flags: [], program: other('abort.cjs', 'process.abort();') },
      /^its self-test ended with (SIGABRT|exit code 134)$/,
      true,
    ],
    [
      'no end',
      { flags: [], program: other('endless.cjs', 'setTimeout(() => {}, 60000);'), longestMs: 500 },
      /^its self-test did not end within 0.5 s$/,
      false,
    ],
    ['no answer', { flags: [], program: other('silent.cjs', '') }, /^its self-test gave no answer$/, false],
    [
      'an error',
      { flags: [], program: other('error.cjs', "process.stderr.write('out of luck\\n'); process.exit(1);") },
      /^its self-test could not be run: out of luck$/,
      false,
    ],
    [
      'no program',
      { flags: [], program: other('gone.cjs', "require('./nowhere.cjs');") },
      /^its self-test could not be run: Error: Cannot find module '.\/nowhere.cjs'$/,
      false,
    ],
  ])('%s', async (_, run, message, kept) => {
    const outcome = await runSelfTest(simd, 'simd', run);
    expect(outcome.why).toMatch(message);
    expect(outcome.kept).toBe(kept);
  });
});

describe('a crash on Windows, where a process ends with a status', () => {
  it.each([
    [134, 'its self-test ended with exit code 134', true],
    [0xc0000005, 'its self-test ended with exit code 0xc0000005', true],
    [0x80000003, 'its self-test ended with exit code 0x80000003', true],
    [0xc000013a, 'its self-test ended with exit code 0xc000013a', false], // Ctrl-C says nothing of turbo
    [1, 'its self-test could not be run: no luck', false],
  ])('%i', (code, why, kept) => {
    expect(outcomeOf(Object.assign(new Error('no luck'), { code }), '', '', 1)).toEqual({ why, kept });
  });
});

describe('verdicts are cached', () => {
  const path = fileURLToPath(kernelsOf('simd'));
  const bytes = readFileSync(path);
  const gone = { flags: ['--experimental-wasm-no-such-thing'], program };
  const endless = { flags: [], program: '/nowhere/turbo.js' };

  it('for these kernels and this machine', async () => {
    const cache = temporaryFolder();
    const first = await turboVerdict(cache, path, 'simd', bytes, gone);
    expect(first).toMatch(/lost a flag/);
    expect(await turboVerdict(cache, path, 'simd', bytes, endless)).toBe(first);
    expect(await turboVerdict(cache, path, 'simd', bytes.subarray(1), endless)).toMatch(/could not be run/);
  });

  it('not if a retry may succeed, nor if the cache cannot be written', async () => {
    const cache = temporaryFolder();
    expect(await turboVerdict(cache, path, 'simd', bytes, endless)).toMatch(/could not be run/);
    expect(await turboVerdict(cache, path, 'simd', bytes, gone)).toMatch(/lost a flag/);
    const file = writeTo(cache, 'file', '');
    expect(await turboVerdict(file, path, 'simd', bytes, gone)).toMatch(/lost a flag/);
  });

  it('if the self-test passes', async () => {
    const cache = temporaryFolder();
    // Without flags in the child's execArgv, V8 warns about flags that it lacks and continues, so
    // any version can run it.
    expect(await turboVerdict(cache, path, 'simd', bytes, { program, flags: [] })).toBe('');
    expect(await turboVerdict(cache, path, 'simd', bytes, endless)).toBe('');
  });
});

it.each([
  [{ node: '24.1.0' }, 'x64', 'fpu avx2 fma', ''],
  [{ node: '24.1.0' }, 'x64', '', ''],
  [{ node: '24.1.0' }, 'x64', 'fpu avx avx2_other', 'it needs a CPU with AVX2'],
  [{ node: '24.1.0' }, 'arm64', '', 'it needs an x64 CPU, this is arm64'],
  [{ node: '22.9.0' }, 'x64', 'avx2', 'it needs Node 24 or newer, this is 22.9.0'],
  [{ node: '24.1.0', bun: '1.3.0' }, 'x64', 'avx2', 'it needs Node, this is Bun'],
  [{ node: '24.1.0', deno: '2.9.0' }, 'x64', 'avx2', 'it needs Node, this is Deno'],
  [{ node: '24.1.0', electron: '40.0.0' }, 'x64', 'avx2', 'it needs Node, this is Electron'],
])('%j on %s with %j', (versions, arch, flags, why) => {
  expect(unavailable({ versions: versions as never, arch: arch as NodeJS.Architecture }, flags)).toBe(why);
});
