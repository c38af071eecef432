import { existsSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';
import { BUILDS, BUILD_NAME, EVERY_BUILD } from './builds.ts';

/**
 * Closes a run with one plain line of counts, says whether the golden data beside the checkout took part, and, of a run of all tests, fails where
 * a build passed no test of kernels, operators, architectures or models.
 */
export class PlainSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    let failed = errors.length;
    for (const m of modules) {
      for (const t of m.children.allTests()) {
        const { state } = t.result();
        if (state === 'passed') passed++;
        else if (state === 'failed') failed++;
      }
      if (!m.ok() && [...m.children.allTests()].every((t) => t.result().state !== 'failed')) failed++;
    }
    const lacking = withoutTests(modules);
    for (const what of lacking) console.error(`no test passed: ${what}`);
    if (lacking.length) process.exitCode = 1;
    failed += lacking.length;
    const shared = existsSync(new URL('../../shared/golden', import.meta.url));
    console.log(`golden data of ../shared: ${shared ? 'used' : "not there, the project's own only"}`);
    console.log(`${passed} passed, ${failed} failed`);
  }
}

/** Folders and builds in whose name no test passed. */
function withoutTests(modules: readonly TestModule[]): string[] {
  const ran = EVERY_BUILD.map((folder) => {
    const of = modules.filter((m) => m.moduleId.includes(`/test/${folder}/`));
    return {
      folder,
      files: of.length,
      builds: new Set(of.flatMap((m) => [...m.children.allTests('passed')]).flatMap((t) => t.fullName.match(BUILD_NAME) ?? [])),
    };
  });
  // A run of some files is no run of all.
  if (ran.some(({ files }) => files === 0)) return [];
  return ran.flatMap(({ folder, builds }) => BUILDS.filter((build) => !builds.has(build)).map((build) => `test/${folder} on ${build}`));
}
