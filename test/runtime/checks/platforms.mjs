// arm64 under QEMU and Windows under Wine: the package's main jobs, against what the machine's own Node makes of them.
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { app, here, model, root } from '../lib/consumer.mjs';
import { arm64, begin, told, windows } from '../lib/platforms.mjs';
import { STEP_MS, until } from '../lib/wait.mjs';

const PROMPT = 'Once upon a time there was a little dog';
const GOLDEN = join(root, 'test/golden/arch');
const cli = join(app, 'node_modules/quantlet/dist/cli.js');
/** This machine's own Node, whose results are the right ones. */
const own = { command: process.execPath, before: [], env: {} };
const KINDS = ['simd', 'relaxed', 'dotadd'];

/** Kinds of builds take turns, one a day on each machine, because the golden models of one take minutes; QUANTLET_ALL_BUILDS runs all. */
const day = Math.floor(Date.now() / 86_400_000);
const inTurn = (offset) => (process.env.QUANTLET_ALL_BUILDS ? KINDS : [KINDS[(day + offset) % KINDS.length]]);

/** The main job with and without threads, and a prompt's state in a file. */
async function jobs(platform, cwd, state) {
  const run = async (...args) => {
    const all = ['run', '-m', model, '-p', PROMPT, '-n', '12', '--temp', '0', '--no-warmup', '--json', ...args];
    return JSON.parse(await told(platform, [cli, ...all], { cwd }));
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

/** `quantlet serve`, asked over loopback from outside. */
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

/** The same of this machine, once. */
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
  ms: 8 * 60_000,
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
    // A state that was saved there is read here, and the other way round: one token of the prompt is computed again.
    same('a state of this machine', (await jobs(platform, cwd, want.state)).computed, 1);
    same('its state on this machine', (await jobs(own, cwd, state)).computed, 1);
    for (const [i, [type, bytes]] of (await quantised(platform, cwd)).entries())
      if (!bytes.equals(want.files[i][1])) faults.push(`quantize ${type}: other bytes than here`);
    same('the server', await served(platform, cwd), want.text);
    const hub = await told(platform, [join(app, 'hub-side.mjs'), model], { cwd: app });
    if (!hub.trimEnd().endsWith('all right')) faults.push(`quantlet/hub: ${hub.trim()}`);
    const side = [...builds().flatMap((kind) => [kind, `${kind}-threads`])];
    const args = [join(app, 'platform-side.mjs'), GOLDEN, side.join()];
    const measured = await told({ ...platform, before: [...platform.before, '--expose-gc'] }, args, { cwd: app, timeout: 5 * 60_000 }).then(
      (text) => JSON.parse(text.trim().split('\n').at(-1)),
      (error) => ({ kernels: {}, models: 0, faults: [error.message] }),
    );
    faults.push(...measured.faults);
    for (const [build, { hashes }] of Object.entries(measured.kernels))
      for (const [kernel, hash] of Object.entries(hashes)) same(`${build} ${kernel}`, hash, want.side.kernels.simd.hashes[kernel]);
    const checked = `main job, states both ways, 3 quantised files, server, hub, bytes of kernels, ${measured.models} golden models on ${side.join(', ')}`;
    return { faults, version: platform.version, relaxed: 'yes', threads: 'yes', checked };
  },
});

/** Files that run every kernel, operator and quantiser against golden numbers, in at most 12 minutes; the two longest take turns. */
const SELECTION = [
  day % 2 ? 'test/kernel/packed.test.ts' : 'test/ops/golden.test.ts',
  'test/kernel/packed-f32.test.ts',
  'test/kernel/block-golden.test.ts',
  'test/kernel/block-vec-dot.test.ts',
  'test/ops/quantise.test.ts',
  'test/quantize/quantize-file.test.ts',
  'test/quantize/rows.test.ts',
];

const tests = {
  name: 'Linux arm64, tests of kernels, operators and quantisers',
  ms: 12 * 60_000,
  async run() {
    const platform = arm64('max');
    const cwd = prepare('tests');
    const args = ['run', '--pool=threads', '--maxWorkers=2', '--testTimeout=600000', '--hookTimeout=600000', ...SELECTION];
    const from = begin(platform, [join(root, 'node_modules/vitest/vitest.mjs'), ...args, `--root=${root}`], { cwd });
    const timer = setTimeout(from.stop, 12 * 60_000);
    const code = await from.end;
    clearTimeout(timer);
    const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(from.stdout()) ?? [];
    const faults =
      code === 0 && failed === '0' ? [] : [`vitest ended with ${code}: ${(from.stderr() + from.stdout()).trim().slice(-1500)}`];
    return { faults, version: platform.version, relaxed: 'yes', threads: 'yes', checked: `${passed} tests of ${SELECTION.length} files` };
  },
};

export const platforms = [
  row('Windows x64 (Wine)', windows, () => inTurn(2)),
  row(
    'Linux arm64 with a dot product (QEMU, max)',
    () => arm64('max'),
    () => inTurn(0),
  ),
  row(
    'Linux arm64 without (QEMU, cortex-a57)',
    () => arm64('cortex-a57'),
    () => inTurn(1),
  ),
  tests,
];
