/**
 * Many sequences, one weight pass: whoever has tokens to compute when a step begins takes part in it.
 * Sequences live in slots of the KV cache; results do not depend on who else is in the step (batch invariance).
 */
import { QuantletError } from './errors.ts';

/** One step's tokens, in the order of the plan's inputs. */
export interface Batch {
  readonly ids: Int32Array;
  readonly pos: Int32Array;
  /** Cell of the cache each token is stored to. */
  readonly cells: Int32Array;
  readonly first: Int32Array;
  readonly visible: Int32Array;
  /** Tokens (indices into the batch) whose logits are wanted. */
  readonly outputs: Int32Array;
  nTokens: number;
  nOutputs: number;
}

export interface SchedulerOptions {
  /** Tokens of a step at most. */
  nBatch: number;
  /** Sequences the cache has room for. */
  nSlots: number;
  /** false: a token sees its whole sequence, which therefore is computed in one step. Default true. */
  causal?: boolean;
  /** Cells of one slot (the context, rounded up to whole attention parts). */
  slotCells: number;
  /** Logits of a step at most. */
  maxOutputs: number;
  /** Runs a step; afterwards row(i) is the logits of output i, valid until the next step. */
  step(batch: Batch, signal: AbortSignal | undefined): Promise<(i: number) => Float32Array>;
}

type OnLogits = (logits: Float32Array, index: number) => void;

interface Job {
  slot: number;
  start: number;
  ids: ArrayLike<number>;
  done: number;
  /** First index whose logits are wanted; all after it are, too. */
  outputsFrom: number;
  onLogits: OnLogits;
  signal: AbortSignal | undefined;
  resolve(): void;
  reject(reason: unknown): void;
}

export interface Scheduler {
  /**
   * Computes `ids` at positions start, start + 1 ... of a slot. onLogits is called for every index >= outputsFrom, in order,
   * before this resolves; it must not keep the array.
   */
  submit(slot: number, start: number, ids: ArrayLike<number>, outputsFrom: number, onLogits: OnLogits, signal?: AbortSignal): Promise<void>;
  /**
   * A slot, first come first served; where several are free, `choose` picks one of them. They are listed from the one that
   * was free longest.
   */
  acquire(signal?: AbortSignal, choose?: (free: readonly number[]) => number): Promise<number>;
  release(slot: number): void;
  /** Sequences that hold a slot. */
  readonly active: number;
  /** Ends everything that waits with this error. */
  close(error: Error): void;
}

/**
 * Prompt tokens of a step in which others generate: their next tokens wait for it. 512 of them would take seconds where 64 take a few tenths,
 * and products of 64 columns are already nearly as fast as they get (bench/kernels.ts).
 */
const PROMPT_BESIDE = 64;

export function createScheduler({ nBatch, nSlots, slotCells, maxOutputs, step, causal = true }: SchedulerOptions): Scheduler {
  const array = (n: number): Int32Array => new Int32Array(n);
  const batch: Batch = { ids: array(nBatch), pos: array(nBatch), cells: array(nBatch), first: array(nBatch), visible: array(nBatch), outputs: array(maxOutputs), nTokens: 0, nOutputs: 0 };
  const jobs: Job[] = [];
  const free = Array.from({ length: nSlots }, (_, i) => i);
  const waiting: { resolve(slot: number): void; reject(reason: unknown): void }[] = [];
  let running = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed: Error | undefined;

  /** Short jobs (generation) come first and whole, prompts share what is left: nobody's next token waits for another's prompt. */
  const fill = (): Map<Job, number> => {
    const taken = new Map<Job, number>();
    batch.nTokens = batch.nOutputs = 0;
    const generating = causal ? jobs.filter((job) => job.ids.length - job.done === 1).length : 0;
    const most = generating > 0 ? Math.min(nBatch, generating + PROMPT_BESIDE) : nBatch;
    for (const job of [...jobs].sort((a, b) => Math.min(a.ids.length - a.done, 2) - Math.min(b.ids.length - b.done, 2))) {
      const { length } = job.ids;
      if (!causal && (batch.nTokens + length > nBatch || batch.nOutputs + length - job.outputsFrom > maxOutputs)) continue;
      let n = 0;
      for (; batch.nTokens < most && job.done + n < job.ids.length; n++) {
        const i = job.done + n, at = batch.nTokens, pos = job.start + i;
        if (i >= job.outputsFrom) {
          if (batch.nOutputs === maxOutputs) break;
          batch.outputs[batch.nOutputs++] = at;
        }
        batch.ids[at] = job.ids[i];
        batch.pos[at] = pos;
        batch.first[at] = job.slot * slotCells;
        batch.cells[at] = job.slot * slotCells + pos;
        batch.visible[at] = causal ? pos + 1 : job.start + length;
        batch.nTokens++;
      }
      if (n > 0) taken.set(job, n);
    }
    return taken;
  };

  const end = (job: Job): Job => {
    const at = jobs.indexOf(job);
    if (at >= 0) jobs.splice(at, 1);
    return job;
  };

  const dropAborted = (): void => {
    for (const job of jobs.filter((j) => j.signal?.aborted)) end(job).reject(job.signal!.reason);
  };

  const runSteps = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    running = true;
    dropAborted();
    const taken = fill();
    try {
      // A step of one sequence may be cut short; one that others share is finished, and the aborted job dropped after it.
      const only = taken.size === 1 ? [...taken.keys()][0].signal : undefined;
      const row = taken.size > 0 ? await step(batch, only) : undefined;
      let output = 0;
      for (const [job, n] of taken) {
        const first = output;
        for (let i = job.done; i < job.done + n; i++) if (i >= job.outputsFrom) output++;
        try {
          for (let o = first; o < output; o++) job.onLogits(row!(o), Math.max(job.done, job.outputsFrom) + o - first);
          job.done += n;
          if (job.done === job.ids.length) end(job).resolve();
        } catch (error) {
          end(job).reject(error); // what one caller does with its logits is no concern of the others
        }
      }
    } catch (error) {
      for (const job of taken.keys()) end(job).reject(error);
    }
    running = false;
    if (jobs.length > 0) schedule();
  };

  /** All that hold a slot are here: start at once, though the first of them has set the timer that gives the others time to come. */
  const schedule = (): void => {
    if (running) return;
    if (jobs.length >= nSlots - free.length) return void runSteps();
    timer ??= setTimeout(runSteps, 0);
  };

  return {
    submit(slot, start, ids, outputsFrom, onLogits, signal) {
      if (closed) return Promise.reject(closed);
      if (start + ids.length > slotCells) return Promise.reject(new QuantletError('ERR_CONTEXT_FULL', `${start + ids.length} tokens do not fit the context of ${slotCells}`));
      return new Promise((resolve, reject) => {
        jobs.push({ slot, start, ids, done: 0, outputsFrom, onLogits, signal, resolve, reject });
        schedule();
      });
    },
    acquire(signal, choose) {
      if (closed) return Promise.reject(closed);
      if (free.length > 0) {
        const slot = choose ? choose(free) : free[0];
        free.splice(free.indexOf(slot), 1);
        return Promise.resolve(slot);
      }
      if (signal?.aborted) return Promise.reject(signal.reason);
      return new Promise((resolve, reject) => {
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(signal!.reason);
        };
        const settled = (): void => signal?.removeEventListener('abort', giveUp);
        const entry = {
          resolve: (slot: number): void => (settled(), resolve(slot)),
          reject: (reason: unknown): void => (settled(), reject(reason)),
        };
        waiting.push(entry);
        signal?.addEventListener('abort', giveUp, { once: true });
      });
    },
    release(slot) {
      const next = waiting.shift();
      if (next) next.resolve(slot);
      else free.push(slot);
    },
    get active() {
      return nSlots - free.length;
    },
    close(error) {
      closed = error;
      for (const job of jobs.splice(0)) job.reject(error);
      for (const entry of waiting.splice(0)) entry.reject(error);
    },
  };
}
