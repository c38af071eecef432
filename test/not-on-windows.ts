/**
 * Tests that cannot pass on Windows, each with its reason, in not-on-windows.json. They still run:
 * one that fails counts as skipped, and one that passes is named at the end of the run, so that the
 * list gets shorter. Tests that would never end are skipped. Files that cannot start are left out.
 */
import { readFileSync } from 'node:fs';
import type { TestContext } from 'vitest';

export interface NotOnWindows {
  readonly file: string;
  /** Full names of tests, or their beginnings. Default: the whole file. */
  readonly tests?: readonly string[];
  readonly reason: string;
  /** They would wait forever. */
  readonly hangs?: true;
}

declare module 'vitest' {
  interface TaskMeta {
    notOnWindows?: 'fails' | 'passes';
  }
}

/** @throws for an entry without a reason */
export function checkedList(list: readonly NotOnWindows[]): readonly NotOnWindows[] {
  for (const { file, reason } of list)
    if (typeof reason !== 'string' || reason.trim().length < 10) throw new Error(`not-on-windows.json: ${file} has no reason`);
  return list;
}

export const notOnWindows = checkedList(
  JSON.parse(readFileSync(new URL('not-on-windows.json', import.meta.url), 'utf8')) as readonly NotOnWindows[],
);

export const entryOf = (list: readonly NotOnWindows[], file: string, name: string): NotOnWindows | undefined =>
  list.find((entry) => entry.file === file && (entry.tests ?? ['']).some((test) => name.startsWith(test)));

/** Runs before every test on Windows. */
export function expectOnWindows(list: readonly NotOnWindows[], { task, skip, onTestFailed }: TestContext): void {
  const entry = entryOf(list, task.file.name.replaceAll('\\', '/'), task.fullTestName);
  if (!entry) return;
  if (entry.hangs) skip(entry.reason);
  task.meta.notOnWindows = 'passes';
  onTestFailed(() => {
    task.meta.notOnWindows = 'fails';
    // as with test.fails: vitest reads it after these hooks
    (task as { fails?: boolean }).fails = true;
  });
}
