// The package as users get it: packed, and unpacked into a project of its own with its
// dependencies.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { STEP_MS } from './wait.mjs';

export const here = join(dirname(fileURLToPath(import.meta.url)), '..');
export const root = join(here, '..', '..');
/** Folder of all files made here; .cache is ignored by git. */
export const work = join(here, '.cache');
export const app = join(work, 'app');
export const golden = JSON.parse(readFileSync(join(here, 'golden.json'), 'utf8'));
export const model = join(root, golden.model);
export const BUILDS = ['simd', 'relaxed', 'dotadd', 'simd-threads', 'relaxed-threads', 'dotadd-threads'];

/** Ends every running process when this one ends. */
const running = new Set();
process.on('exit', () => running.forEach((stop) => stop()));

/** Output of a child process. Rejects with the exit code and the last output if it fails. */
export function run(command, args, { cwd = app, env = {}, timeout = STEP_MS } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    const stop = () => child.kill('SIGKILL');
    running.add(stop);
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (d) => (stdout += d));
    child.stderr.on('data', (d) => (stderr += d));
    let late = '';
    const timer = setTimeout(() => (stop(), (late = ` after ${timeout / 1000} s`)), timeout);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      running.delete(stop);
      if (code === 0) resolve({ stdout, stderr });
      else
        reject(
          Object.assign(
            new Error(`${command} ${args[0] ?? ''} ended with ${signal ?? code}${late}: ${(stderr + stdout).trim().slice(-1500)}`),
            { stdout, stderr, code },
          ),
        );
    });
  });
}

/** Starts a server process. Resolves with the match of `ready` in its output. */
export function start(command, args, ready, { cwd = app, env = {}, timeout = STEP_MS } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    const stop = () =>
      new Promise((done) => {
        if (child.exitCode !== null) return done();
        child.on('close', done);
        try {
          process.kill(-child.pid, 'SIGKILL');
        } catch {
          done();
        }
      });
    const timer = setTimeout(
      () => (void stop(), reject(new Error(`${command} ${args[0]} was not ready in ${timeout} ms: ${output.slice(-1500)}`))),
      timeout,
    );
    const look = (data) => {
      output += data;
      const found = ready.exec(output);
      if (found) (clearTimeout(timer), resolve({ found, stop, output: () => output, signal: (name) => process.kill(-child.pid, name) }));
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.on(
      'close',
      (code) => (clearTimeout(timer), reject(new Error(`${command} ${args[0]} ended with ${code}: ${output.slice(-1500)}`))),
    );
    running.add(stop);
    child.on('close', () => running.delete(stop));
  });
}

/** Packs and unpacks. Returns the tarball's sizes. */
export async function makeConsumer() {
  rmSync(work, { recursive: true, force: true });
  const target = join(app, 'node_modules', 'quantlet');
  mkdirSync(target, { recursive: true });
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', work], { cwd: root });
  const [packed] = JSON.parse(stdout);
  await run('tar', ['-xzf', join(work, packed.filename), '-C', target, '--strip-components=1'], { cwd: work });
  const copy = (name) => {
    const to = join(app, 'node_modules', name);
    const from = join(root, 'node_modules', name);
    if (existsSync(to) || !existsSync(from)) return;
    cpSync(realpathSync(from), to, { recursive: true, dereference: true });
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(readFileSync(join(to, 'package.json'), 'utf8'));
    for (const dependency of Object.keys({ ...dependencies, ...optionalDependencies })) copy(dependency);
  };
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) copy(name);
  return packed;
}

/** A copy of an example, or an empty project, that resolves quantlet to the packed one. */
export function project(name, example = name) {
  const to = join(app, name);
  const from = join(root, 'examples', example);
  mkdirSync(to, { recursive: true });
  if (existsSync(from)) cpSync(from, to, { recursive: true, filter: (f) => !f.includes('node_modules') });
  return to;
}

/**
 * A file in a package of test/runtime. (Its binaries are not linked: one of them is called node.)
 */
export const tool = (path) => {
  const file = join(here, 'node_modules', path);
  if (!existsSync(file))
    throw new Error(`test/runtime/node_modules/${path} is missing: npm ci in test/runtime failed, or this is not Linux on x64`);
  return file;
};
