/** Too little memory or disk space gives a coded error and leaves no files. */
import { readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { outOfMemory } from '../../src/wasm/memory.ts';
import { cliPath, hasFullDisk, llamaModel, runCli, runProgram, temporaryFolder } from '../support.ts';

const folder = temporaryFolder();

it('an allocation that fails is coded, other errors stay as they are', () => {
  for (const message of [
    'Array buffer allocation failed',
    'WebAssembly.Memory(): could not allocate memory',
    'WebAssembly.Memory.grow(): Unable to grow instance memory',
    'WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance',
  ]) {
    expect(outOfMemory('loading', new RangeError(message))).toMatchObject({
      code: 'ERR_OUT_OF_MEMORY',
      message: expect.stringContaining('loading failed because memory ran out'),
      cause: { message },
    });
  }
  for (const other of [
    new RangeError('Maximum call stack size exceeded'),
    new RangeError('Invalid array length'),
    new Error('could not allocate'),
    'text',
  ])
    expect(outOfMemory('loading', other)).toBe(other);
});

describe.runIf(process.platform === 'linux')('Linux', () => {
  it.each([
    ['simd', 3_000_000],
    ['simd', 12_000_000],
  ])('an address space of %s, %i KiB: the model runs, or one line says why not', async (build, limit) => {
    const { code, stderr } = await runProgram('sh', [
      '-c',
      `ulimit -v ${limit}; exec "$@"`,
      'sh',
      process.execPath,
      cliPath,
      'run',
      '-m',
      llamaModel,
      '-p',
      'the cat',
      '-n',
      '2',
      '--no-warmup',
      '--build',
      build,
    ]);
    if (code !== 0) expect(stderr).toMatch(/^quantlet: .*(ERR_OUT_OF_MEMORY|ERR_NO_SIMD|ERR_BUILD_UNAVAILABLE)\)\n$/);
  });

  it.runIf(hasFullDisk)('a full disk: the prompt cache is not written, in one line', async () => {
    symlinkSync('/dev/full', join(folder, 'cache'));
    const { code, stderr } = await runCli([
      'run',
      '-m',
      llamaModel,
      '-p',
      'the cat',
      '-n',
      2,
      '--temp',
      0,
      '--no-warmup',
      '--prompt-cache',
      join(folder, 'cache'),
    ]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot write the prompt cache .*ENOSPC.*\(ERR_IO\)\n$/)]);
    expect(readdirSync(folder)).toEqual(['cache']);
  });
});
