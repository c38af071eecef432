#!/usr/bin/env node
/**
 * Campaigns of random cases, longer than tests may take.
 *
 * Usage:
 *
 *   npm run fuzz -- [--seconds N] [--cases N] [--seed S]
 *                   [--only kernels] [--build dotadd] [--threads N]
 *
 * Runs every campaign of this folder (a module with `export function campaign`, see campaign.ts) on
 * every build that this Node supports, each in a process of its own. Prints the number of cases and
 * the seed of each failure. The last line counts campaigns.
 */
import { fork } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BUILDS, isThreaded } from '../../src/wasm/load.ts';

const child = fileURLToPath(new URL('child.mjs', import.meta.url));
/** Node 20 needs this flag to decode relaxed SIMD; newer versions refuse it. */
const flags = process.versions.node.startsWith('20.') ? ['--experimental-wasm-relaxed-simd'] : [];

/**
 * Resolves with the message of the campaign's process, or with how the process ended without one.
 */
const start = (task) =>
  new Promise((resolve) => {
    const process = fork(child, [JSON.stringify(task)], { execArgv: flags });
    process.once('message', resolve);
    process.once('exit', (code, signal) =>
      resolve({ cases: 0, failures: [{ seed: task.seed, message: `its process ended with ${signal ?? code}` }] }),
    );
  });

async function main() {
  const { values } = parseArgs({
    options: Object.fromEntries(['seconds', 'cases', 'seed', 'only', 'build', 'threads'].map((name) => [name, { type: 'string' }])),
  });
  const number = (name, otherwise) => {
    const n = Number(values[name] ?? otherwise);
    if (!(n > 0)) throw new Error(`--${name} is "${values[name]}"; expected a number above 0`);
    return n;
  };
  const cases = number('cases', Infinity);
  const seconds = number('seconds', values.cases ? Infinity : 60);
  const seed = number('seed', Date.now() % 2 ** 31);
  const threads = number('threads', 3);
  const here = new URL('./', import.meta.url);
  const isCampaign = (file) => /^export (async )?function campaign\b/m.test(readFileSync(new URL(file, here), 'utf8'));
  const names = readdirSync(here)
    .filter((file) => file.endsWith('.ts') && isCampaign(file))
    .map((file) => file.slice(0, -3));
  const wanted = names.filter((name) => !values.only || name === values.only);
  const builds = BUILDS.filter((build) => !values.build || build === values.build);
  if (!wanted.length || !builds.length)
    throw new Error(`nothing to run: campaigns are ${names.join(', ')}; builds are ${BUILDS.join(', ')}`);
  let passed = 0;
  let failed = 0;
  for (const name of wanted) {
    for (const build of builds) {
      const from = performance.now();
      // (JSON has no Infinity.)
      const result = await start({
        name,
        build,
        threads: isThreaded(build) ? threads : 1,
        seed,
        seconds: Math.min(seconds, 1e9),
        cases: Math.min(cases, 1e12),
      });
      const where = `${name} on ${build}, Node ${process.versions.node}`;
      if (result.skipped) {
        console.log(`${where}: not run, ${result.skipped}`);
        continue;
      }
      console.log(
        `${where}: ${result.cases} cases from seed ${seed} in ${((performance.now() - from) / 1000).toFixed(0)} s, ${result.failures.length} failed${result.measured ? `; ${result.measured}` : ''}`,
      );
      for (const failure of result.failures)
        console.log(`  --only ${name} --build ${build} --cases 1 --seed ${failure.seed}: ${failure.message}`);
      if (result.failures.length) failed++;
      else passed++;
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

await main();
