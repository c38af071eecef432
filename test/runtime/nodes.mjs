#!/usr/bin/env node
// npm test on another Node, of those that package.json here pins: node test/runtime/nodes.mjs 24 [--turbo] [what vitest takes]
// --turbo: the tests of kernels, operators and models alone, with every module compiled as turbo compiles it; their references know nothing of it.
// Node 20 computes the dot-add wrong and refuses the builds with it, so that only these run every build. A Node that cannot be had here is a failure.
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
// What tests start as node or npm is to be this Node as well.
const env = { ...process.env, PATH: dirname(node) + delimiter + process.env.PATH, ...(turbo ? { QUANTLET_TEST_TURBO: '1' } : {}) };
const { status } = spawnSync(node, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args], { cwd: root, stdio: 'inherit', env });
process.exit(status ?? 1);
