// The pinned packages of test/runtime: runtimes, bundlers, and the Node versions that npm test also
// runs on.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { here } from './consumer.mjs';
import { ROW_MS } from './wait.mjs';

/** Installs them if they are not installed as the lock file says. Throws if that fails. */
export function installPackages() {
  const stamp = join(here, 'node_modules/.installed');
  const wanted = readFileSync(join(here, 'package-lock.json'), 'utf8');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  console.log('installing the runtimes of test/runtime ...');
  // No links to binaries: one of them would be called node. No scripts: every package ships what it
  // needs. Not npm ci, which insists on other systems' optional packages, and a mirror may not have
  // them. Versions are pinned anyway.
  const { status, stdout, stderr } = spawnSync(
    'npm',
    ['install', '--no-save', '--ignore-scripts', '--no-bin-links', '--no-audit', '--no-fund'],
    { cwd: here, encoding: 'utf8', timeout: ROW_MS },
  );
  if (status !== 0) throw new Error(`npm install in test/runtime ended with ${status}: ${(stderr + stdout).slice(-3000)}`);
  writeFileSync(stamp, wanted);
}
