/** The list of tests that cannot pass on Windows works as described. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it, type TaskMeta, type TestContext } from 'vitest';
import { checkedList, entryOf, expectOnWindows, notOnWindows, type NotOnWindows } from './not-on-windows.ts';
import { at } from './support.ts';

describe('the list', () => {
  it.each(notOnWindows.map(({ file }) => file))('%s exists', (file) => expect(existsSync(at(file))).toBe(true));

  it('has a reason for each', () => {
    for (const reason of ['', '   ', 'later', undefined as unknown as string])
      expect(() => checkedList([{ file: 'test/a.test.ts', reason }])).toThrow('test/a.test.ts has no reason');
  });

  it('names tests by how their names begin, in one file', () => {
    const list: NotOnWindows[] = [{ file: 'test/a.test.ts', tests: ['links > are'], reason: 'Windows has none of these' }];
    expect(entryOf(list, 'test/a.test.ts', 'links > are followed')).toBe(list[0]);
    expect(entryOf(list, 'test/a.test.ts', 'more links > are followed')).toBeUndefined();
    expect(entryOf(list, 'test/b.test.ts', 'links > are followed')).toBeUndefined();
  });
});

it('no test file is in two parts of the tests under Wine', () => {
  const { windows } = JSON.parse(readFileSync(at('test/runtime/platform-tests.json'), 'utf8')) as { windows: readonly string[][] };
  const files = readdirSync(at('test'), { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'runtime') return [];
    const within = entry.isDirectory()
      ? readdirSync(at(`test/${entry.name}`), { recursive: true, encoding: 'utf8' }).map(
          (name) => `${entry.name}/${name.replaceAll('\\', '/')}`,
        )
      : [entry.name];
    return within.filter((name) => name.endsWith('.test.ts')).map((name) => `test/${name}`);
  });
  expect(files.length).toBeGreaterThan(150);
  for (const file of files) expect(windows.flat().filter((part) => file.includes(part)).length, file).toBeLessThanOrEqual(1);
});

describe('a listed test', () => {
  const file = 'test/not-on-windows.test.ts';
  /** The effect of a list on a test of this name. */
  function given(entry: Omit<NotOnWindows, 'file' | 'reason'>): { meta: TaskMeta; fails?: boolean; skipped?: string; fail: () => void } {
    const task: { meta: TaskMeta; fails?: boolean; skipped?: string; fail: () => void } = { meta: {}, fail: () => undefined };
    const context = {
      task: Object.assign(task, { file: { name: file.replaceAll('/', '\\') }, fullTestName: 'links > are followed' }),
      skip: (reason: string) => void (task.skipped = reason),
      onTestFailed: (hook: () => void) => void (task.fail = hook),
    };
    expectOnWindows([{ file, reason: 'Windows has none', ...entry }], context as unknown as TestContext);
    return task;
  }

  it('is noted if it passes, and expected to fail', () => {
    const task = given({ tests: ['links'] });
    expect([task.meta.notOnWindows, task.fails, task.skipped]).toEqual(['passes', undefined, undefined]);
    task.fail();
    expect([task.meta.notOnWindows, task.fails]).toEqual(['fails', true]);
  });

  it('is skipped with its reason if it would never end', () => expect(given({ hangs: true }).skipped).toBe('Windows has none'));

  it('leaves all others alone', () => expect(given({ tests: ['pipes'] }).meta).toEqual({}));

  it('that fails is not a failure to vitest', (context) => {
    // the first hook runs last
    context.onTestFailed(() => void delete context.task.meta.notOnWindows);
    expectOnWindows([{ file, reason: 'it does, below' }], context);
    expect.fail('what the list expects');
  });
});
