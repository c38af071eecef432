/**
 * Runs ten thousand lines through examples/bullmq with three workers, one of which is killed
 * (SIGKILL) and restarted every minute. At the end every custom_id must be present once, with the
 * answer that `quantlet batch` gives for the same line alone.
 *
 *   (cd examples/bullmq && npm install && npm install --no-save ../..)
 *   nice -n 10 node --import tsx bench/batch-kills.ts [LINES] [SECONDS BETWEEN KILLS]
 *
 * It needs redis-server on the PATH.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeMachine, machine } from './support.ts';

const [lines = 10_000, seconds = 60] = process.argv.slice(2).map(Number);
const WORKERS = 3;
const root = fileURLToPath(new URL('../', import.meta.url));
const example = join(root, 'examples/bullmq');
const folder = mkdtempSync(join(tmpdir(), 'quantlet-kills-'));
const at = (name: string): string => join(folder, name);
const animals = ['dog', 'cat', 'bird', 'frog', 'fox', 'bear', 'cow', 'fish'];
const lineOf = (i: number): string =>
  JSON.stringify({
    custom_id: `line ${i}`,
    method: 'POST',
    url: '/v1/completions',
    body: {
      prompt: `Once upon a time there was a ${animals[i % 8]} who had ${i} balls.`,
      max_tokens: 16,
      ...(i % 2 ? { seed: i } : { temperature: 0 }),
    },
  });
const put = (name: string, which: (i: number) => boolean): string => {
  writeFileSync(at(name), Array.from({ length: lines }, (_, i) => (which(i) ? `${lineOf(i)}\n` : '')).join(''));
  return at(name);
};

const running = new Set<ChildProcess>();
function start(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, inherit = false): ChildProcess {
  const child = spawn(program, args, {
    cwd: example,
    env: { ...process.env, ...env },
    stdio: ['ignore', inherit ? 'inherit' : 'ignore', inherit ? 'inherit' : 'ignore'],
  });
  running.add(child);
  child.on('exit', () => running.delete(child));
  return child;
}
async function ended(child: ChildProcess, what: string): Promise<void> {
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${what} ended with ${code}`);
}
/** Answers of a file by line. Throws if one is present twice. */
function answers(path: string): Map<string, string> {
  const all = new Map<string, string>();
  for (const text of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
    const {
      custom_id: id,
      response,
      error,
    } = JSON.parse(text) as { custom_id: string; response: { body: { choices: object[] } }; error: object | null };
    if (error || all.has(id)) throw new Error(`${id} ${error ? 'has an error' : 'is there twice'}`);
    all.set(id, JSON.stringify(response.body.choices));
  }
  return all;
}

try {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  start('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'yes']);
  const env = { REDIS_URL: `redis://127.0.0.1:${port}`, QUANTLET_BUILD: 'simd-threads', PARALLEL: '4' };
  const program = (name: string, ...args: string[]): ChildProcess => start(process.execPath, [join(example, name), ...args], env);

  const began = performance.now();
  await ended(
    program(
      'producer.mjs',
      put('in.jsonl', () => true),
    ),
    'producer.mjs',
  );
  const produced = performance.now() - began;
  const workers = Array.from({ length: WORKERS }, () => program('worker.mjs'));
  let kills = 0;
  const timer = setInterval(() => {
    const i = kills++ % WORKERS;
    workers[i].kill('SIGKILL');
    workers[i] = program('worker.mjs');
  }, seconds * 1000);
  await ended(start(process.execPath, [join(example, 'watch.mjs')], env, true), 'watch.mjs');
  clearInterval(timer);
  const took = performance.now() - began;
  for (const worker of workers) worker.kill('SIGTERM');
  await ended(program('collect.mjs', at('out.jsonl')), 'collect.mjs');

  const got = answers(at('out.jsonl'));
  const missing = Array.from({ length: lines }, (_, i) => `line ${i}`).filter((id) => !got.has(id));
  const alone = start(
    process.execPath,
    [join(root, 'dist/cli.js'), 'batch', '-i', put('some.jsonl', (i) => i % 20 === 0), '-o', at('some-out.jsonl')],
    env,
  );
  await ended(alone, 'quantlet batch');
  const same = answers(at('some-out.jsonl'));
  const different = [...same].filter(([id, text]) => got.get(id) !== text);
  const right = missing.length === 0 && got.size === lines && different.length === 0;
  console.log(describeMachine(machine()));
  console.log(
    `${lines} lines, ${WORKERS} workers, one killed every ${seconds} s: ${kills} killed, ${(took / 1000).toFixed(0)} s (${(produced / 1000).toFixed(1)} s of them to make the jobs); ` +
      `${got.size} answers, ${missing.length} missing, none twice; ${different.length} of ${same.size} differ from those of one process: ${right ? 'right' : 'WRONG'}`,
  );
  process.exitCode = right ? 0 : 1;
} finally {
  for (const child of running) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
