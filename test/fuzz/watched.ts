/**
 * Campaigns whose cases may crash, hang or exhaust memory. They run in a child process that reports
 * the case it is at. If the child dies or is silent for long, that case has failed, and a new child
 * continues after it.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Work } from '../../src/slices.ts';
import { MOST_FAILURES, type CampaignOptions, type CampaignResult } from './campaign.ts';

/**
 * Silence of this length is a hang. Cases take milliseconds, and a second or two at the lowest
 * priority on a busy machine.
 */
const STALL_MS = 120_000;
/** Memory that a case may use in addition to its own bytes. */
const ALLOWED_BYTES = 200e6;
/** Node 20 needs this flag to decode relaxed SIMD; newer versions refuse it. */
const FLAGS = process.versions.node.startsWith('20.') ? ['--experimental-wasm-relaxed-simd'] : [];

interface Said {
  readonly done: number;
  readonly failure?: string;
  readonly end?: true;
}
type Task = Pick<CampaignOptions, 'build' | 'threads' | 'seed' | 'seconds' | 'cases'>;

/** Runs the cases of the module at `url`, which calls serveWatched() when it is the child. */
export async function runWatched(url: string, options: CampaignOptions): Promise<CampaignResult> {
  const end = performance.now() + options.seconds * 1000;
  const failures: { seed: number; message: string }[] = [];
  let done = 0;
  while (done < options.cases && (done === 0 || performance.now() < end) && failures.length < MOST_FAILURES) {
    const first = done;
    const task: Task = {
      ...options,
      seed: options.seed + first,
      seconds: Math.min((end - performance.now()) / 1000, 1e9),
      cases: Math.min(options.cases - first, 1e12),
    };
    const child = fork(fileURLToPath(url), ['--watched', JSON.stringify(task)], {
      execArgv: [...FLAGS, '--import', 'tsx'],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    });
    let stderr = '';
    let ended = false;
    let why = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-2000)));
    const stalled = (): void => {
      why = `it took longer than ${STALL_MS / 1000} s`;
      child.kill('SIGKILL');
    };
    let timer = setTimeout(stalled, STALL_MS);
    child.on('message', (said: Said) => {
      clearTimeout(timer);
      timer = setTimeout(stalled, STALL_MS);
      done = first + said.done;
      if (said.failure !== undefined) failures.push({ seed: options.seed + done - 1, message: said.failure });
      if (said.end) ended = true;
    });
    const exit = await new Promise<string>((resolve) => child.once('close', (code, signal) => resolve(String(signal ?? code))));
    clearTimeout(timer);
    if (ended) continue;
    failures.push({
      seed: options.seed + done,
      message: why || `its process ended with ${exit}: ${stderr.trim().split('\n').slice(-5).join(' | ')}`,
    });
    done++;
  }
  return { cases: done, failures };
}

/**
 * Runs case after case in a child; does nothing in any other process. `one` returns the number of
 * bytes of its case, which are added to the allowed memory, and throws if something is wrong.
 */
export async function serveWatched(prepare: (task: Task) => Promise<(seed: number) => Promise<number>>): Promise<void> {
  const at = process.argv.indexOf('--watched');
  if (at < 0 || !process.send) return;
  const task = JSON.parse(process.argv[at + 1]) as Task;
  const end = performance.now() + task.seconds * 1000;
  const say = (said: Said): Promise<void> => new Promise((resolve) => void process.send!(said, () => resolve()));
  const one = await prepare(task);
  for (let done = 0, failed = 0; ;) {
    let failure: string | undefined;
    const before = process.resourceUsage().maxRSS;
    try {
      const size = await one(task.seed + done);
      const took = (process.resourceUsage().maxRSS - before) * 1024;
      if (took > size + ALLOWED_BYTES) failure = `it took ${took} bytes of memory for ${size} bytes`;
    } catch (error) {
      failure = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    }
    done++;
    if (failure !== undefined) failed++;
    const last = done >= task.cases || performance.now() >= end || failed >= MOST_FAILURES;
    await say({ done, ...(failure !== undefined ? { failure } : {}), ...(last ? { end: true } : {}) });
    if (last) break;
  }
  process.exit(0);
}

/**
 * Processor time in milliseconds that one step may take. Steps take one or two on an idle machine,
 * quadratic work takes seconds.
 */
const STEP_MS = 1000;

/** Runs work to its end. @throws Error if a step takes too long */
export function inSteps<T>(work: Work<T>): T {
  for (;;) {
    const before = process.cpuUsage();
    const { done, value } = work.next();
    const { user, system } = process.cpuUsage(before);
    if (user + system > STEP_MS * 1000) throw new Error(`a step took ${((user + system) / 1000).toFixed(0)} ms of processor time`);
    if (done) return value;
  }
}
