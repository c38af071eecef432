import { existsSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** Closes a run with one plain line of counts, and says whether the golden data beside the checkout took part. */
export class PlainSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0, failed = errors.length;
    for (const m of modules) {
      for (const t of m.children.allTests()) {
        const { state } = t.result();
        if (state === 'passed') passed++;
        else if (state === 'failed') failed++;
      }
      if (!m.ok() && [...m.children.allTests()].every((t) => t.result().state !== 'failed')) failed++;
    }
    const shared = existsSync(new URL('../../shared/golden', import.meta.url));
    console.log(`golden data of ../shared: ${shared ? 'used' : 'not there, the project\'s own only'}`);
    console.log(`${passed} passed, ${failed} failed`);
  }
}
