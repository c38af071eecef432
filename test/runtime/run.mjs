#!/usr/bin/env node
// The matrix: installs its packages, runs every runtime and bundler, prints a table. --only=TEXT
// runs the rows with TEXT in their names. It ends in time even if something hangs. Rows that could
// not be installed or had no time left count as failed. Emulated machines that are not available
// (checks/platforms.mjs) are "not run", neither passed nor failed.
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeConsumer, work } from './lib/consumer.mjs';
import { installPackages } from './lib/install.mjs';
import { browsers } from './checks/browsers.mjs';
import { bundles } from './checks/bundles.mjs';
import { clients } from './checks/clients.mjs';
import { edges } from './checks/edges.mjs';
import { faults } from './checks/faults.mjs';
import { large } from './checks/large.mjs';
import { openai } from './checks/openai.mjs';
import { manifest } from './checks/manifest.mjs';
import { pages } from './checks/page.mjs';
import { platforms } from './checks/platforms.mjs';
import { queue } from './checks/queue.mjs';
import { react } from './checks/react.mjs';
import { search } from './checks/search.mjs';
import { servers } from './checks/servers.mjs';
import { NotRun } from './lib/platforms.mjs';
import { ROW_MS, WHOLE_MS, within } from './lib/wait.mjs';

const only = process.argv
  .find((a) => a.startsWith('--only='))
  ?.slice(7)
  .toLowerCase();
const begin = Date.now();

function install() {
  installPackages();
  const packages = {
    chromium: '/usr/bin/chromium',
    'firefox-esr': '/usr/bin/firefox-esr',
    'webkit2gtk-driver': '/usr/bin/WebKitWebDriver',
    xvfb: '/usr/bin/Xvfb',
    'redis-server': '/usr/bin/redis-server',
  };
  const missing = Object.keys(packages).filter((name) => !existsSync(packages[name]));
  if (missing.length === 0) return;
  console.log(`installing ${missing.join(', ')} ...`);
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...missing]]) {
    const { status, error } = spawnSync('apt-get', args, {
      stdio: ['ignore', 'ignore', 'inherit'],
      timeout: ROW_MS,
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
    if (status !== 0)
      return console.error(
        `apt-get ${args[0]} ${error ? `cannot run: ${error.message}` : `ended with ${status}`}; the rows of ${missing.join(', ')} will fail`,
      );
  }
}

const cells = [];
let reference;

async function check({ name, run, isReference, ms = ROW_MS }) {
  const from = Date.now();
  let result;
  try {
    const left = begin + WHOLE_MS - from;
    if (left <= 0) throw new Error(`not run: the matrix has ${WHOLE_MS / 60_000} minutes, and they are over`);
    result = await within(Math.min(ms, left), 'this row', run(reference));
    if (isReference) reference = result.kernels;
  } catch (error) {
    result = error instanceof NotRun ? { faults: [], notRun: error.message } : { faults: [error.message || String(error)] };
  }
  const { version = '', relaxed = '-', threads = '-', notRun, checked = notRun ?? '', faults } = result;
  const outcome = notRun !== undefined ? 'not run' : faults.length ? 'FAILED' : 'passed';
  const seconds = ((Date.now() - from) / 1000).toFixed(1);
  cells.push({ name, version, relaxed, threads, checked, result: outcome, seconds });
  console.log(`${outcome}  ${name} ${version} (${seconds} s) ${checked}`);
  for (const fault of faults) console.log(`        ${fault}`);
}

install();
const packed = await makeConsumer();
const rows = [
  ...servers,
  ...queue,
  ...edges,
  ...browsers,
  ...openai,
  ...clients,
  ...faults,
  ...large,
  ...bundles,
  ...pages,
  ...react,
  ...search,
  ...manifest(packed),
  ...platforms,
];
const isAsked = (row) => (only ? row.isReference || row.name.toLowerCase().includes(only) : !row.byName);
for (const row of rows.filter(isAsked)) await check(row);

const head = { name: 'runtime', version: 'version', relaxed: 'relaxed SIMD', threads: 'threads', checked: 'checked', result: 'result' };
const lines = [head, ...cells].map(
  (c) =>
    `| ${Object.keys(head)
      .map((k) => String(c[k]))
      .join(' | ')} |`,
);
lines.splice(1, 0, `|${'---|'.repeat(Object.keys(head).length)}`);
writeFileSync(join(work, 'matrix.md'), lines.join('\n') + '\n');
const count = (result) => cells.filter((c) => c.result === result).length;
const failed = count('FAILED');
if (count('not run')) console.log(`\n${count('not run')} rows not run: this machine cannot have what they need`);
console.log(`\n${lines.join('\n')}\n\n${((Date.now() - begin) / 1000).toFixed(0)} s\n${count('passed')} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
