import { existsSync } from 'node:fs';
import type { Reporter, TestModule, TestState } from 'vitest/node';
import { BUILDS, BUILD_NAME, EVERY_BUILD, isQuick } from './builds.ts';
import { endOf } from './forks.ts';

/** Number of tests by result; pending: not finished. */
type Counts = Record<TestState, number>;

/**
 * Ends a run with one plain line of counts. Names the files whose process ended before their tests
 * did, and counts these tests as failed. Says if the golden data next to the checkout was used. A
 * run of all tests fails if a build passed no test of kernels, ops, architectures or models.
 */
export class PlainSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    let failed = errors.length;
    const listed: { fails: string[]; passes: string[] } = { fails: [], passes: [] };
    for (const m of modules) {
      const count: Counts = { passed: 0, failed: 0, skipped: 0, pending: 0 };
      for (const t of m.children.allTests()) {
        const { notOnWindows } = t.meta();
        count[notOnWindows === 'fails' ? 'skipped' : t.result().state]++;
        if (notOnWindows) listed[notOnWindows].push(`${m.relativeModuleId} > ${t.fullName}`);
      }
      passed += count.passed;
      failed += count.failed + count.pending;
      if (!m.ok() && count.failed === 0) failed++;
      if (ended(m)) console.error(endedEarly(m, count));
    }
    const lacking = withoutTests(modules);
    for (const what of lacking) console.error(`no test passed: ${what}`);
    if (lacking.length) process.exitCode = 1;
    failed += lacking.length;
    for (const name of listed.passes) console.error(`passes, though test/not-on-windows.json says that it cannot: ${name}`);
    if (listed.fails.length) console.log(`${listed.fails.length} tests that cannot pass on Windows failed (test/not-on-windows.json)`);
    const shared = existsSync(new URL('../../shared/golden', import.meta.url));
    console.log(`golden data of ../shared: ${shared ? 'used' : "not there, the project's own only"}`);
    console.log(`${passed} passed, ${failed} failed`);
  }
}

/** Tells if a file's process has gone while its tests are unfinished. */
const ended = (m: TestModule): boolean => ['queued', 'pending'].includes(m.state()) && endOf.has(m.moduleId);

const endedEarly = ({ moduleId, relativeModuleId }: TestModule, { passed, failed, pending }: Counts): string =>
  `the process of ${relativeModuleId} ended ${endOf.get(moduleId)}: ${passed} tests passed and ${failed} failed before, ${pending} did not end`;

/** Folders and builds for which no test passed. */
function withoutTests(modules: readonly TestModule[]): string[] {
  const ran = EVERY_BUILD.map((folder) => {
    const of = modules.filter((m) => m.moduleId.includes(`/test/${folder}/`));
    return {
      folder,
      files: of.length,
      builds: new Set(of.flatMap((m) => [...m.children.allTests('passed')]).flatMap((t) => t.fullName.match(BUILD_NAME) ?? [])),
    };
  });
  // A run of some files is not checked.
  if (isQuick || ran.some(({ files }) => files === 0)) return [];
  return ran.flatMap(({ folder, builds }) => BUILDS.filter((build) => !builds.has(build)).map((build) => `test/${folder} on ${build}`));
}
