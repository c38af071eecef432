/** The choice of a build, and that tests run all builds. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BUILDS, detectFeatures, pickBuild, type Features } from '../src/wasm/load.ts';
import { refuseUnfit } from '../src/entry/unfit-machine.ts';
import * as tested from './builds.ts';
import { root } from './support.ts';

const features = (...has: (keyof Features)[]): Features => ({
  simd: has.includes('simd'),
  relaxed: has.includes('relaxed'),
  dotAdd: 'wrong',
  threads: has.includes('threads'),
});

describe('pickBuild', () => {
  it.each([
    [features('simd'), 'simd'],
    [features('simd', 'threads'), 'simd-threads'],
    [features('simd', 'relaxed'), 'relaxed'],
    [features('simd', 'relaxed', 'threads'), 'relaxed-threads'],
    [{ ...features('simd', 'relaxed'), dotAdd: 'slow' }, 'relaxed'],
    [{ ...features('simd', 'relaxed'), dotAdd: 'fast' }, 'dotadd'],
    [{ ...features('simd', 'relaxed', 'threads'), dotAdd: 'fast' }, 'dotadd-threads'],
  ] satisfies [Features, string][])('%o: %s', (has, build) => expect(pickBuild(has, undefined)).toBe(build));

  it('takes the requested build if it runs, else says what is missing', () => {
    for (const build of BUILDS) expect(pickBuild({ ...features('simd', 'relaxed', 'threads'), dotAdd: 'slow' }, build)).toBe(build);
    expect(() => pickBuild(features('simd', 'relaxed'), 'dotadd')).toThrow(expect.objectContaining({ code: 'ERR_BUILD_UNAVAILABLE' }));
    expect(() => pickBuild(features('simd', 'relaxed'), 'relaxed-threads')).toThrow(
      expect.objectContaining({ code: 'ERR_BUILD_UNAVAILABLE' }),
    );
    expect(() => pickBuild(features('simd'), 'avx')).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    expect(() => pickBuild(features(), undefined)).toThrow(expect.objectContaining({ code: 'ERR_NO_SIMD' }));
  });

  it('refuses a big-endian machine and a 32-bit Node', () => {
    for (const arch of [undefined, 'x64', 'arm64', 'riscv64', 'loong64']) expect(() => refuseUnfit(arch), arch).not.toThrow();
    const refused = (message: RegExp): unknown =>
      expect.objectContaining({ code: 'ERR_NO_SIMD', message: expect.stringMatching(message) as string });
    expect(() => refuseUnfit('s390x', Uint8Array.of(0, 1))).toThrow(
      refused(/^this is a big-endian machine; quantlet needs a little-endian/),
    );
    for (const arch of ['arm', 'ia32'])
      expect(() => refuseUnfit(arch)).toThrow(refused(new RegExp(`^this is a 32-bit program \\(${arch}\\); .*a 64-bit runtime$`)));
  });

  it('detected features work on this runtime', () => {
    const found = detectFeatures();
    expect(found.simd).toBe(true);
    expect(found.dotAdd).toBe(
      found.relaxed && !process.versions.node.startsWith('20.')
        ? pickBuild(found, undefined).startsWith('dotadd')
          ? 'fast'
          : 'slow'
        : 'wrong',
    );
  });
});

describe('tests', () => {
  it('run every build of asconfig.json where Node is new enough for all of them', () => {
    const targets = Object.keys((JSON.parse(readFileSync(new URL('asconfig.json', root), 'utf8')) as { targets: object }).targets);
    expect([...BUILDS].sort()).toEqual(targets.flatMap((target) => [target, target.replace('-threads', '')]).sort());
    const here = Number(process.versions.node.split('.')[0]) >= 24 ? BUILDS : BUILDS.filter((build) => !build.startsWith('dotadd'));
    for (const build of here) {
      expect(tested.BUILDS, 'kernels').toContain(build);
      expect(
        tested.RUNS.map(([name]) => name),
        'operators and models',
      ).toContain(build);
    }
  });
});
