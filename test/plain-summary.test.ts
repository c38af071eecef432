/** The last lines of a test run in which a process dies silently. */
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { at, root, runNode, temporaryFolder, writeTo } from './support.ts';

it('a file whose process ended is named, with its end, and its tests count as failed', async () => {
  const folder = temporaryFolder();
  symlinkSync(at('node_modules'), join(folder, 'node_modules'), 'junction');
  const url = (file: string): string => JSON.stringify(new URL(`test/${file}`, root).href);
  writeTo(
    folder,
    'vitest.config.mjs',
    `const { tellingForks } = await import(${url('forks.ts')}), { PlainSummary } = await import(${url('plain-summary.ts')});
    export default { test: { pool: tellingForks, reporters: [new PlainSummary()] } };`,
  );
  writeTo(folder, 'stays.test.mjs', `import { it } from 'vitest'; it('one', () => {});`);
  writeTo(
    folder,
    'goes.test.mjs',
    `import { it } from 'vitest';
    it('one', () => {});
    it('two', () => process.kill(process.pid, 'SIGKILL'));
    it('three', () => {});`,
  );
  const { code, stdout, stderr } = await runNode(['--import', 'tsx', at('node_modules/vitest/vitest.mjs'), 'run', '--root', folder], {
    cwd: at('.'),
    timeout: 60_000,
  });
  expect(code, stderr).toBe(1);
  expect(stderr).toMatch(
    /^the process of goes\.test\.mjs ended (by SIGKILL|with exit code 1): \d tests passed and 0 failed before, \d did not end$/m,
  );
  // One of the four tests may have been reported before; vitest's own error counts too.
  expect(stdout).toMatch(/^(1 passed, 4|2 passed, 3) failed\n$/m);
});
