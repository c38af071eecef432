/**
 * Decides if turbo may be used. If it is available, its self-test runs once in a process of its
 * own, because V8's revectoriser is experimental and its defects give wrong bits or crash the
 * process. The outcome is kept in quantlet's cache folder for this V8, CPU and build.
 */
import type { ExecFileException } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { createFingerprint } from '../fingerprint.ts';
import { packageFile } from '../threads/package-files.ts';
import { printable } from '../printable.ts';
import type { Build } from '../wasm/load.ts';
import { TURBO_FLAGS } from './compile.ts';

const PROGRAM_URL = import.meta.url ? new URL('../../dist/worker/turbo.js', import.meta.url) : undefined;
const PROGRAM = (): string => packageFile(PROGRAM_URL, 'dist/worker/turbo.js');
/** The self-test takes half a second, and longer on a busy machine. */
const LONGEST_MS = 60_000;
/** V8's message about an unknown flag. */
const LOST = /^.*unrecognized flag.*$/m;
/** Exit code of Node's abort() on Windows, which has no signals. */
const ABORTED = 134;
/** On Windows, an exit code from here on is the status of a crash. */
const CRASHED = 0x80000000;
const STATUS_CONTROL_C_EXIT = 0xc000013a;

export interface SelfTestRun {
  readonly flags?: readonly string[];
  readonly program?: string;
  readonly longestMs?: number;
}

/**
 * why: '' if turbo is right, else the reason why it is not used. kept: true if another run would
 * give the same outcome.
 */
interface Outcome {
  readonly why: string;
  readonly kept: boolean;
}

/** Contents of a small file, '' if it cannot be read. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** CPU flags as the Linux kernel lists them; '' on other systems, which have no such list. */
const cpuFlags = (): string => /^flags\s*:\s*(.*)$/m.exec(textOf('/proc/cpuinfo'))?.[1] ?? '';

/** Reason why turbo is unavailable, whatever its self-test would say; '' if it may be available. */
export function unavailable({ versions, arch }: Pick<NodeJS.Process, 'versions' | 'arch'> = process, flags = cpuFlags()): string {
  const { node, bun, deno, electron } = versions as { node: string; bun?: string; deno?: string; electron?: string };
  if (bun !== undefined || deno !== undefined) return `it needs Node, this is ${bun === undefined ? 'Deno' : 'Bun'}`;
  if (electron !== undefined) return 'it needs Node, this is Electron';
  if (arch !== 'x64') return `it needs an x64 CPU, this is ${arch}`;
  if (Number.parseInt(node) < 24) return `it needs Node 24 or newer, this is ${node}`;
  if (flags !== '' && !flags.split(' ').includes('avx2')) return 'it needs a CPU with AVX2';
  return isPackedProgram() ? 'it needs Node as a program of its own, but this one is packed with a script' : '';
}

/**
 * True in a single executable application: starting its program again would start the application.
 */
function isPackedProgram(): boolean {
  const { isSea } = (process.getBuiltinModule?.('node:sea') ?? {}) as { isSea?: () => boolean };
  return isSea?.() ?? false;
}

/** Runs the self-test of a file of kernels. Never rejects. */
export async function runSelfTest(
  kernels: string,
  build: Build,
  { flags = TURBO_FLAGS, program = PROGRAM(), longestMs = LONGEST_MS }: SelfTestRun = {},
): Promise<Outcome> {
  // Without the parent's NODE_OPTIONS, which may make a process wait for a debugger.
  const { NODE_OPTIONS: _, ...env } = process.env;
  const { execFile } = await import('node:child_process'); // takes 3 ms, and usually there is a kept outcome
  return new Promise((resolve) => {
    const ended = (error: ExecFileException | null, stdout: string, stderr: string): void =>
      resolve(outcomeOf(error, stdout, stderr, longestMs));
    try {
      execFile(
        process.execPath,
        [program, kernels, build, ...flags],
        { env, timeout: longestMs, killSignal: 'SIGKILL', windowsHide: true },
        ended,
      );
    } catch (error) {
      ended(error as ExecFileException, '', ''); // Node's permission model refuses synchronously
    }
  });
}

/**
 * Interprets the end of the self-test's process.
 * @internal
 */
export function outcomeOf(error: ExecFileException | null, stdout: string, stderr: string, longestMs: number): Outcome {
  const lost = LOST.exec(stderr);
  if (lost) return { why: `this V8 has lost a flag (${printable(lost[0])})`, kept: true };
  if (!error) {
    const differ = answerOf(stdout)?.differ;
    if (!differ) return { why: 'its self-test gave no answer', kept: false };
    return { why: differ.length === 0 ? '' : `its self-test gave different bits for ${differ.join(', ')}`, kept: true };
  }
  if (error.killed) return { why: `its self-test did not end within ${longestMs / 1000} s`, kept: false };
  if (error.signal)
    return { why: `its self-test ended with ${error.signal}`, kept: error.signal !== 'SIGKILL' && error.signal !== 'SIGTERM' };
  const { code } = error;
  if (typeof code === 'number' && (code === ABORTED || code >= CRASHED))
    return {
      why: `its self-test ended with exit code ${code === ABORTED ? code : `0x${code.toString(16)}`}`,
      kept: code !== STATUS_CONTROL_C_EXIT,
    };
  const [said] = /^\w*Error.*$/m.exec(stderr) ?? (stderr || error.message).trim().split('\n');
  return { why: `its self-test could not be run: ${printable(said)}`, kept: false };
}

function answerOf(text: string): { differ?: string[]; why?: string } | undefined {
  try {
    return JSON.parse(text) as { differ?: string[]; why?: string };
  } catch {
    return undefined;
  }
}

/**
 * Fingerprint of the inputs of V8's code: versions, CPU, flags, and the bytes of the build.
 * (node:crypto would take 5 ms to import.)
 */
const keyOf = (bytes: Uint8Array): string =>
  createFingerprint()
    .add(Buffer.from(JSON.stringify([process.version, process.versions.v8, process.arch, cpus()[0]?.model, cpuFlags(), TURBO_FLAGS])))
    .add(bytes)
    .hex();

/**
 * Returns the reason why turbo is not used for a build, '' if it is right. Never rejects. If the
 * folder cannot be written, every process runs a self-test.
 * @param folder quantlet's cache folder
 * @param kernels the path of the build's file
 * @param bytes its contents
 */
export async function turboVerdict(folder: string, kernels: string, build: Build, bytes: Uint8Array, run?: SelfTestRun): Promise<string> {
  const file = join(folder, 'turbo', `${keyOf(bytes)}.json`);
  const known = answerOf(textOf(file))?.why;
  if (typeof known === 'string') return known;
  const { why, kept } = await runSelfTest(kernels, build, run);
  if (kept) await keep(file, { why, build, node: process.versions.node, v8: process.versions.v8, cpu: cpus()[0]?.model });
  return why;
}

/** Writes the file atomically, since another process may read it at this moment. */
async function keep(file: string, contents: object): Promise<void> {
  const part = `${file}.${process.pid}.part`;
  await mkdir(join(file, '..'), { recursive: true })
    .then(() => writeFile(part, `${JSON.stringify(contents, null, 2)}\n`))
    .then(() => rename(part, file))
    .catch(() => {});
}
