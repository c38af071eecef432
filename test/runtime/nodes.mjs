#!/usr/bin/env node
// Runs npm test on another Node that package.json here pins. Fails if that Node cannot be
// installed.
//   node test/runtime/nodes.mjs 24 [--turbo] [arguments of vitest]
// With --turbo it runs only the tests of kernels, ops and models, with every module compiled as
// turbo compiles it. Their references are computed without it. Node 20 computes the dot-add wrong
// and refuses those builds, so only newer versions run every build.
import { spawnSync } from 'node:child_process';
import { delimiter, dirname, join } from 'node:path';
import { here, root } from './lib/consumer.mjs';
import { installPackages } from './lib/install.mjs';

const [major, ...rest] = process.argv.slice(2);
const turbo = rest[0] === '--turbo';
const args = turbo ? ['test/kernel', 'test/ops', 'test/model', ...rest.slice(1)] : rest;
const node = join(here, 'node_modules', `node-${major}`, 'bin/node');
const fail = (why) => {
  console.error(`npm test did not run on Node ${major}: ${why}`);
  console.log('0 passed, 1 failed');
  process.exit(1);
};

try {
  installPackages();
} catch (error) {
  fail(error.message);
}
const { stdout, error, signal } = spawnSync(node, ['--version'], { encoding: 'utf8' });
if (error || !stdout.startsWith(`v${major}.`))
  fail(
    error
      ? `${node} cannot run on this ${process.platform} ${process.arch}: ${error.message}`
      : `${node} says it is ${stdout.trim() || signal}`,
  );
console.log(`npm test on Node ${stdout.trim()}${turbo ? ', kernels, operators and models with turbo' : ''}`);
// Programs that tests start as node or npm must be this Node as well.
const env = { ...process.env, PATH: dirname(node) + delimiter + process.env.PATH, ...(turbo ? { QUANTLET_TEST_TURBO: '1' } : {}) };
const { status } = spawnSync(node, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args], { cwd: root, stdio: 'inherit', env });
process.exit(status ?? 1);
