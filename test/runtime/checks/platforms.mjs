// arm64 under QEMU and Windows under Wine: the package's main jobs, compared with the results of
// this machine's own Node.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { app, here, model, root } from '../lib/consumer.mjs';
import { arm64, begin, ended, told, windows, windowsWithVitest } from '../lib/platforms.mjs';
import { STEP_MS, until } from '../lib/wait.mjs';

const PROMPT = 'Once upon a time there was a little dog';
const GOLDEN = join(root, 'test/golden/arch');
const cli = join(app, 'node_modules/quantlet/dist/cli.js');
/** This machine's own Node, whose results are the expected ones. */
const own = { command: process.execPath, before: [], env: {} };
const KINDS = ['simd', 'relaxed', 'dotadd'];

/**
 * Emulation is slow, so of the parts that take minutes one runs per day. QUANTLET_NO_TURNS runs
 * all.
 */
const all = Boolean(process.env.QUANTLET_NO_TURNS);
const day = Math.floor(Date.now() / 86_400_000);
const inTurn = (list, offset = 0) => (all ? list : [list[(day + offset) % list.length]]);
const withThreads = (kinds) => kinds.flatMap((kind) => [kind, `${kind}-threads`]);
/** Limits for a busy machine: an idle one takes a third. */
const LIMIT_MS = 15 * 60_000;
const LIMITS = ['--maxWorkers=2', '--testTimeout=600000', '--hookTimeout=600000'];
const today = new Date().toISOString().slice(0, 10);

/** The main job with and without threads, and a prompt's state in a file. */
async function jobs(platform, cwd, state) {
  const run = async (...args) => {
    const same = ['run', '-m', model, '-p', PROMPT, '-n', '12', '--temp', '0', '--no-warmup', '--json'];
    return JSON.parse(await told(platform, [cli, ...same, ...args], { cwd }));
  };
  const [one, two] = [await run('-t', '1', '--build', 'simd'), await run('-t', '2', '--build', 'simd-threads', '--prompt-cache', state)];
  return { ids: one.ids, two: two.ids, computed: two.timings.prompt_n, prompt: two.prompt_ids.length };
}

async function quantised(platform, cwd) {
  const files = [];
  for (const type of ['Q4_0', 'Q6_K', 'IQ4_XS']) {
    const to = join(cwd, `ein Modell ü ${type}.gguf`);
    await told(platform, [cli, 'quantize', '--allow-requantize', '--pure', model, to, type, '2'], { cwd });
    files.push([type, readFileSync(to)]);
    rmSync(to);
  }
  return files;
}

/** `quantlet serve`, with a request over loopback from outside. */
async function served(platform, cwd) {
  const server = begin(platform, [cli, 'serve', '-m', model, '--port', '0', '--host', '127.0.0.1', '-t', '1'], { cwd, name: 'serve' });
  try {
    const url = await until('the server to listen', () => /http:\/\/127\.0\.0\.1:\d+/.exec(server.stdout() + server.stderr())?.[0]);
    const body = JSON.stringify({ prompt: PROMPT, max_tokens: 8, temperature: 0 });
    const signal = AbortSignal.timeout(STEP_MS);
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal,
    });
    return (await response.json()).choices?.[0].text;
  } finally {
    server.stop();
    await server.end;
  }
}

/** The same on this machine, computed once. */
let expected;
async function reference(cwd) {
  if (expected) return expected;
  const state = join(cwd, 'own.state');
  const done = await jobs(own, cwd, state);
  const builds = process.versions.node.startsWith('20.') ? ['--experimental-wasm-relaxed-simd'] : [];
  const side = JSON.parse(await told({ ...own, before: builds }, [join(app, 'platform-side.mjs'), GOLDEN, 'simd'], { cwd: app }));
  return (expected = { ...done, state, side, files: await quantised(own, cwd), text: await served(own, cwd) });
}

function prepare(name) {
  for (const file of ['lib/portable.mjs', 'checks/platform-side.mjs', 'checks/hub-side.mjs'])
    copyFileSync(join(here, file), join(app, file.replace(/.*\//, '')));
  const cwd = join(app, `platform ${name}`);
  mkdirSync(cwd, { recursive: true });
  return cwd;
}

const row = (name, open, builds) => ({
  name,
  ms: all ? 60 * 60_000 : LIMIT_MS,
  async run() {
    const platform = open();
    const cwd = prepare(name);
    const want = await reference(prepare('own'));
    const faults = [];
    const same = (what, got, right) =>
      JSON.stringify(got) === JSON.stringify(right) || faults.push(`${what}: ${JSON.stringify(got)}, here ${JSON.stringify(right)}`);
    const state = join(cwd, 'state');
    const done = await jobs(platform, cwd, state);
    same('the main job, 1 thread', done.ids, want.ids);
    same('the main job, 2 threads', done.two, want.two);
    // A state saved there is read here, and the other way round. One token of the prompt is
    // computed again.
    same('a state of this machine', (await jobs(platform, cwd, want.state)).computed, 1);
    same('its state on this machine', (await jobs(own, cwd, state)).computed, 1);
    for (const [i, [type, bytes]] of (await quantised(platform, cwd)).entries())
      if (!bytes.equals(want.files[i][1])) faults.push(`quantize ${type}: other bytes than here`);
    same('the server', await served(platform, cwd), want.text);
    const hub = await told(platform, [join(app, 'hub-side.mjs'), model], { cwd: app });
    if (!hub.trimEnd().endsWith('all right')) faults.push(`quantlet/hub: ${hub.trim()}`);
    const args = [join(app, 'platform-side.mjs'), GOLDEN, builds.join()];
    const timeout = all ? 60 * 60_000 : LIMIT_MS;
    const measured = await told({ ...platform, before: [...platform.before, '--expose-gc'] }, args, { cwd: app, timeout }).then(
      (text) => JSON.parse(text.trim().split('\n').at(-1)),
      (error) => ({ kernels: {}, models: 0, faults: [error.message] }),
    );
    faults.push(...measured.faults);
    for (const [build, { hashes }] of Object.entries(measured.kernels))
      for (const [kernel, hash] of Object.entries(hashes)) same(`${build} ${kernel}`, hash, want.side.kernels.simd.hashes[kernel]);
    const checked = `main job, states both ways, 3 quantised files, server, hub, bytes of kernels, ${measured.models} golden models on ${builds.join(', ')} (${today})`;
    return { faults, version: platform.version, relaxed: 'yes', threads: 'yes', checked };
  },
});

/**
 * Rows of tests, in parts of 3 to 10 minutes each. They only run by name: --only="npm test",
 * --only="npm test, part 3". Windows runs all tests, arm64 those that compare kernels, ops and
 * quantisers with golden numbers and bytes.
 */
const TESTS = JSON.parse(readFileSync(join(here, 'platform-tests.json'), 'utf8'));

/** Test files that are in no part. */
function others(parts) {
  const tests = join(root, 'test');
  return readdirSync(tests, { withFileTypes: true })
    .filter(({ name }) => name !== 'runtime')
    .flatMap((entry) => (entry.isDirectory() ? readdirSync(join(tests, entry.name)).map((name) => `${entry.name}/${name}`) : [entry.name]))
    .map((name) => `test/${name}`)
    .filter((file) => file.endsWith('.test.ts') && !parts.flat().some((part) => file.includes(part)));
}

const vitest = (name, open, files, flags = []) => ({
  name,
  byName: true,
  ms: LIMIT_MS,
  async run() {
    const platform = open();
    const args = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', `--root=${root}`, ...LIMITS, ...flags, ...files];
    const { code, stdout, stderr } = await ended(platform, args, { cwd: prepare(name.replaceAll(',', '')), timeout: LIMIT_MS });
    const plain = `${stderr}${stdout}`.replace(/\x1b\[[0-9;]*m/g, '');
    const log = join(here, `node_modules/.platforms/${name}.log`);
    writeFileSync(log, plain);
    const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(plain) ?? [];
    const listed = plain.match(/^(?:passes, though|\d+ tests that cannot pass on Windows).*$/gm) ?? [];
    const faults =
      code === 0 && failed === '0' && Number(passed) > 0
        ? []
        : [
            `vitest ended with ${code}: ${(plain.match(/^ *FAIL .*$/gm) ?? []).join('; ')} ${plain.trim().slice(-1500)} (all of it: ${log})`,
          ];
    const checked = [`${passed} tests of ${files.join(' ')} (${today})`, ...listed].join('; ');
    return { faults, version: platform.version, relaxed: 'yes', threads: 'yes', checked };
  },
});
const inParts = (name, open, parts, flags) =>
  parts.map((files, i) => vitest(`${name}, part ${i + 1} of ${parts.length}`, open, files, flags));

export const platforms = [
  row('Windows x64 (Wine)', windows, withThreads(inTurn(KINDS, 2))),
  row('Linux arm64 with a dot product (QEMU, max)', () => arm64('max'), withThreads(inTurn(KINDS))),
  row('Linux arm64 without (QEMU, cortex-a57)', () => arm64('cortex-a57'), all ? withThreads(KINDS) : inTurn(KINDS, 1)),
  // Node cannot start itself there without binfmt_misc.
  ...inParts('Linux arm64, tests', () => arm64('max'), TESTS.arm64, ['--pool=threads']),
  ...inParts('Windows x64 (Wine), npm test', windowsWithVitest, [...TESTS.windows, others(TESTS.windows)]),
];
