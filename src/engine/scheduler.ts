/**
 * Many sequences, one weight pass: whoever has tokens to compute when a step begins takes part in it.
 * Sequences live in slots of the KV cache (slots.ts); results do not depend on who else is in the step (batch invariance).
 */
import { QuantletError } from '../errors.ts';
import { RUN_WORDS } from '../graph/recurrent.ts';
import type { Slot, Slots } from './slots.ts';
import { createStepCosts, type StepCosts } from './step-costs.ts';

/** One step's tokens, in the order of the plan's inputs. */
export interface Batch {
  readonly ids: Int32Array;
  readonly pos: Int32Array;
  /** Cell of the cache each token is stored to. */
  readonly cells: Int32Array;
  readonly first: Int32Array;
  readonly visible: Int32Array;
  /** Cells of its prompt that each token sees, where an encoder has read it. */
  readonly encoded: Int32Array;
  /** Whether these are prompts for the encoder. */
  encodes: boolean;
  /** Tokens (indices into the batch) whose logits are wanted. */
  readonly outputs: Int32Array;
  /** The other tokens. */
  readonly others: Int32Array;
  /** Which recurrent states the tokens go on from: RUN_WORDS numbers a run (graph/recurrent.ts). */
  readonly runs: Int32Array;
  nTokens: number;
  nOutputs: number;
  nRuns: number;
}

export interface SchedulerOptions {
  /** Tokens of a step at most. */
  nBatch: number;
  slots: Slots;
  /** false: a token sees its whole sequence, which therefore is computed in one step. Default true. */
  causal?: boolean;
  /** Logits of a step at most. */
  maxOutputs: number;
  /** Runs a step; afterwards row(i) is the logits of output i, valid until the next step. */
  step(batch: Batch, signal: AbortSignal | undefined): Promise<(i: number) => Float32Array>;
}

/** False says that the tokens behind this one are of no use: they were a draft, and something else comes. Anything else says nothing. */
type OnLogits = (logits: Float32Array, index: number) => unknown;

interface Job {
  slot: Slot;
  /** Position of ids[0]. */
  start: number;
  ids: ArrayLike<number>;
  /** How many of ids the slot holds, but not their recurrent states. */
  again: number;
  done: number;
  /** First index whose logits are wanted; all after it are, too. */
  outputsFrom: number;
  onLogits: OnLogits;
  /** ids are a prompt for the encoder. */
  encodes: boolean;
  signal: AbortSignal | undefined;
  resolve(): void;
  reject(reason: unknown): void;
}

export interface Scheduler {
  /**
   * Computes `ids` behind the tokens that a slot holds, which then holds them too. If this rejects, it holds those that the steps before have computed,
   * so that the next prompt that begins with them goes on from there.
   * onLogits is called for every index of `ids` from outputsFrom on, in order, before this resolves; it must not keep the array.
   * Where it returns false, this resolves at once, and the slot holds the tokens up to that one. A slot has one call at a time.
   * @throws ERR_CONTEXT_FULL, what the step throws, or signal.reason
   */
  submit(slot: Slot, ids: ArrayLike<number>, outputsFrom: number, onLogits: OnLogits, signal?: AbortSignal): Promise<void>;
  /**
   * Has the encoder read a prompt, whole, for the tokens that a slot is to hold; whatever it held is forgotten.
   * @throws ERR_CONTEXT_FULL, what the step throws, or signal.reason; the slot then holds no prompt
   */
  encode(slot: Slot, prompt: readonly number[], signal?: AbortSignal): Promise<void>;
  /** What steps took in which every token had logits: those of generations alone. */
  readonly costs: StepCosts;
  /** Ends everything that is being computed, and refuses all that comes later, with this error. */
  close(error: Error): void;
}

/**
 * Prompt tokens of a step in which others generate: their next tokens wait for it. 512 of them would take seconds where 64 take a few tenths,
 * and products of 64 columns are already nearly as fast as they get (bench/kernels.ts).
 */
const PROMPT_BESIDE = 64;

export function createScheduler({ nBatch, slots, maxOutputs, step, causal = true }: SchedulerOptions): Scheduler {
  const array = (n: number): Int32Array => new Int32Array(n);
  const batch: Batch = {
    ids: array(nBatch),
    pos: array(nBatch),
    cells: array(nBatch),
    first: array(nBatch),
    visible: array(nBatch),
    encoded: array(nBatch),
    encodes: false,
    outputs: array(maxOutputs),
    others: array(nBatch),
    runs: array(RUN_WORDS * nBatch),
    nTokens: 0,
    nOutputs: 0,
    nRuns: 0,
  };
  const jobs: Job[] = [];
  const costs = createStepCosts();
  let running = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed: Error | undefined;

  /** All that is left of it has logits: a next token with its draft, or the last token of a prompt. */
  const generates = (job: Job): boolean => job.done >= job.outputsFrom;

  /** Short jobs (generation) come first and whole, prompts share what is left: nobody's next token waits for another's prompt. */
  const fill = (): Map<Job, number> => {
    const taken = new Map<Job, number>();
    batch.nTokens = batch.nOutputs = batch.nRuns = 0;
    batch.encodes = jobs.some((job) => job.encodes);
    const whole = !causal || batch.encodes;
    const generating = !whole ? jobs.reduce((n, job) => n + (generates(job) ? job.ids.length - job.done : 0), 0) : 0;
    const most = generating > 0 ? Math.min(nBatch, generating + PROMPT_BESIDE) : nBatch;
    for (const job of [...jobs].sort((a, b) => Number(generates(b)) - Number(generates(a)))) {
      const { length } = job.ids;
      if (job.encodes !== batch.encodes) continue;
      if (whole && (batch.nTokens + length > nBatch || batch.nOutputs + length - job.outputsFrom > maxOutputs)) continue;
      let n = 0;
      const outputs = batch.nOutputs;
      for (; batch.nTokens < most && job.done + n < job.ids.length; n++) {
        const i = job.done + n;
        const at = batch.nTokens;
        const pos = job.start + i;
        if (i >= job.outputsFrom) {
          if (batch.nOutputs === maxOutputs) break;
          batch.outputs[batch.nOutputs++] = at;
        } else batch.others[at - batch.nOutputs] = at;
        batch.ids[at] = job.ids[i];
        batch.pos[at] = pos;
        batch.first[at] = job.slot.firstCell;
        batch.cells[at] = job.slot.firstCell + pos;
        batch.visible[at] = whole ? job.start + length : pos + 1;
        batch.encoded[at] = job.slot.encoded.length;
        batch.nTokens++;
      }
      if (n === 0) continue;
      taken.set(job, n);
      const from = job.start + job.done;
      for (const run of job.slot.states?.plan(from, from + n, batch.nOutputs > outputs + 1) ?? [])
        batch.runs.set([run.n, run.from, run.to], RUN_WORDS * batch.nRuns++);
    }
    return taken;
  };

  const end = (job: Job): Job => {
    const at = jobs.indexOf(job);
    if (at >= 0) jobs.splice(at, 1);
    job.slot.truncate(job.slot.tokens.length); // states of tokens that it does not keep
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
      const before = performance.now();
      const row = taken.size > 0 ? await step(batch, only) : undefined;
      if (row && batch.nOutputs === batch.nTokens) costs.learn(batch.nTokens, performance.now() - before);
      let output = 0;
      for (const [job, n] of taken) {
        const first = output;
        job.slot.states?.commit();
        for (let i = job.done; i < job.done + n; i++) if (i >= job.outputsFrom) output++;
        try {
          const from = Math.max(job.done, job.outputsFrom);
          let kept = job.ids.length;
          for (let o = first; o < output && kept === job.ids.length; o++)
            if (job.onLogits(row!(o), from + o - first - job.again) === false) kept = from + o - first + 1;
          const begun = Math.max(job.done, job.again);
          job.done += n;
          if (!job.encodes) job.slot.append(Array.prototype.slice.call(job.ids, begun, Math.min(job.done, kept)) as number[]);
          if (job.done < kept) continue;
          if (job.encodes) job.slot.encode(Array.from(job.ids));
          end(job).resolve();
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
    if (jobs.length >= slots.active) return void runSteps();
    timer ??= setTimeout(runSteps, 0);
  };

  const add = (job: Omit<Job, 'done' | 'resolve' | 'reject'>): Promise<void> => {
    if (closed) return Promise.reject(closed);
    const end = job.start + job.ids.length;
    if (end > job.slot.capacity)
      return Promise.reject(new QuantletError('ERR_CONTEXT_FULL', `${end} tokens do not fit the context of ${job.slot.capacity}`));
    return new Promise((resolve, reject) => {
      jobs.push({ ...job, done: 0, resolve, reject });
      schedule();
    });
  };

  return {
    submit(slot, ids, outputsFrom, onLogits, signal) {
      const start = slot.computed;
      const again = slot.tokens.slice(start);
      return add({
        slot,
        start,
        ids: again.length > 0 ? again.concat(Array.from(ids)) : ids,
        again: again.length,
        outputsFrom: outputsFrom + again.length,
        onLogits,
        encodes: false,
        signal,
      });
    },
    encode(slot, prompt, signal) {
      slot.encode([]);
      return add({ slot, start: 0, ids: prompt, again: 0, outputsFrom: prompt.length, onLogits: () => {}, encodes: true, signal });
    },
    costs,
    close(error) {
      closed = error;
      for (const job of jobs.splice(0)) job.reject(error);
    },
  };
}
