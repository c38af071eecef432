/**
 * Steps of many sequences: whoever has tokens to compute when a step begins takes part in it.
 * Sequences live in slots of the KV cache (slots.ts). Results do not depend on who else is in the
 * step (batch invariance).
 */
import { QuantletError } from '../errors.ts';
import { Batch } from './batch.ts';
import type { ImageTokens } from './image-tokens.ts';
import { Places } from './places.ts';
import type { Slot, Slots } from './slots.ts';
import { createStepCosts, type StepCosts } from './step-costs.ts';

export interface SchedulerOptions {
  /** Maximum number of tokens of a step. */
  nBatch: number;
  slots: Slots;
  /** Images in sequences, and the numbers of an image token's embedding. Default: none. */
  images?: { readonly tokens: ImageTokens; readonly width: number } | undefined;
  /**
   * false: a token sees its whole sequence, so the sequence is computed in one step. Default true.
   */
  causal?: boolean;
  /** Maximum number of rows of logits of a step. */
  maxOutputs: number;
  /**
   * Runs a step. Returns a function that gives the logits of output i, valid until the next step.
   */
  step(batch: Batch, signal: AbortSignal | undefined): Promise<(i: number) => Float32Array>;
}

/**
 * Returns false if the tokens after this one are not wanted: they were a draft that turned out
 * wrong.
 */
type OnLogits = (logits: Float32Array, index: number) => unknown;

/**
 * Prompt tokens of a step in which others generate, because their next tokens wait for it: 512
 * would take seconds where 64 take a few tenths. Products of 64 columns are nearly as fast as wider
 * ones.
 */
const PROMPT_BESIDE = 64;

/** Tokens that were asked for together, and how many of them are computed. */
class Job {
  done = 0;
  readonly slot: Slot;
  /** Position of ids[0]. */
  readonly start: number;
  readonly ids: ArrayLike<number>;
  /**
   * Number of ids at the beginning that the slot already had. They are computed again, because the
   * recurrent states after them were lost.
   */
  readonly again: number;
  /** First index whose logits are wanted; those of all later ones are wanted too. */
  readonly outputsFrom: number;
  /** True if the ids are a prompt for the encoder. */
  readonly encodes: boolean;
  readonly signal: AbortSignal | undefined;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  private readonly onLogits: OnLogits;
  private readonly onStep: (() => void) | undefined;

  constructor(asked: JobRequest, resolve: () => void, reject: (reason: unknown) => void) {
    this.slot = asked.slot;
    this.start = asked.start;
    this.ids = asked.ids;
    this.again = asked.again;
    this.outputsFrom = asked.outputsFrom;
    this.encodes = asked.encodes;
    this.signal = asked.signal;
    this.onLogits = asked.onLogits;
    this.onStep = asked.onStep;
    this.resolve = resolve;
    this.reject = reject;
  }

  get left(): number {
    return this.ids.length - this.done;
  }

  /**
   * True if all tokens that are left have logits: a next token with its draft, or the last token of
   * a prompt.
   */
  get generates(): boolean {
    return this.done >= this.outputsFrom;
  }

  /** True if a step has room for all tokens. */
  fitsInto(batch: Batch): boolean {
    const nOutputs = this.ids.length - this.outputsFrom;
    return batch.nTokens + this.ids.length <= batch.ids.length && batch.nOutputs + nOutputs <= batch.outputs.length;
  }

  /**
   * Adds tokens to a step until it has `most`.
   * @param isWhole every token sees the whole sequence, not only what precedes it
   * @returns how many were added
   */
  addTo(batch: Batch, most: number, isWhole: boolean, images: ImageTokens | undefined): number {
    const { slot, start, ids, done, outputsFrom } = this;
    const before = batch.nOutputs;
    const places = images && new Places(images, slot.tokens, start + done);
    let n = 0;
    for (let whole = 0; (batch.nTokens < most || whole > 0) && n < this.left; n++, whole--) {
      const i = done + n;
      const isOutput = i >= outputsFrom;
      if (!batch.hasRoom(isOutput)) break;
      const place = places?.next(ids[i]);
      // The tokens of an image that see each other are all in one step.
      if (place && place.sees > 0 && whole <= 0) {
        if (batch.nTokens + place.sees > batch.ids.length) break;
        whole = place.sees;
      }
      batch.push(
        slot,
        ids[i],
        start + i,
        isWhole ? start + ids.length : start + i + 1 + Math.max(0, (place?.sees ?? 0) - 1),
        isOutput,
        place,
      );
    }
    if (n > 0 && slot.states) {
      const from = start + done;
      batch.pushRuns(slot.states.plan(from, from + n, batch.nOutputs > before + 1));
    }
    return n;
  }

  /**
   * Takes what a step computed into the slot.
   * @param row gives the logits of this job's outputs in the step
   * @returns true if the job is complete, or its caller wants no more
   */
  take(n: number, row: (i: number) => Float32Array): boolean {
    const { slot, ids, again } = this;
    const first = Math.max(this.done, this.outputsFrom);
    const begun = Math.max(this.done, again);
    this.done += n;
    let kept = ids.length;
    for (let i = first; i < this.done && kept === ids.length; i++) if (this.onLogits(row(i - first), i - again) === false) kept = i + 1;
    if (!this.encodes) slot.append(Array.prototype.slice.call(ids, begun, Math.min(this.done, kept)) as number[]);
    this.onStep?.();
    if (this.done < kept) return false;
    if (this.encodes) slot.encode(Array.from(ids));
    return true;
  }
}

type JobRequest = Pick<Job, 'slot' | 'start' | 'ids' | 'again' | 'outputsFrom' | 'encodes' | 'signal'> & {
  readonly onLogits: OnLogits;
  readonly onStep?: (() => void) | undefined;
};

export class Scheduler {
  /** Times of the steps in which every token had logits: those of generations alone. */
  readonly costs: StepCosts = createStepCosts();

  private readonly slots: Slots;
  private readonly causal: boolean;
  private readonly images: ImageTokens | undefined;
  private readonly step: SchedulerOptions['step'];
  private readonly batch: Batch;
  private readonly jobs: Job[] = [];
  private running = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed: Error | undefined;

  constructor({ nBatch, slots, maxOutputs, step, images, causal = true }: SchedulerOptions) {
    this.slots = slots;
    this.causal = causal;
    this.step = step;
    this.images = images?.tokens;
    this.batch = new Batch(nBatch, maxOutputs, images?.width);
  }

  /**
   * Computes `ids` after the tokens that a slot holds; the slot then holds them too. If this
   * rejects, the slot holds the tokens that earlier steps computed, so the next prompt that begins
   * with them continues there. A slot has one call at a time.
   *
   * @param onLogits called for every index of `ids` from outputsFrom on, in order, before this
   *   resolves; must not keep the array. If it returns false, this resolves at once, and the slot
   *   holds the tokens up to that one
   * @param onStep called after each step, when the slot holds its tokens
   * @throws ERR_CONTEXT_FULL, what the step throws, or signal.reason
   */
  submit(
    slot: Slot,
    ids: ArrayLike<number>,
    outputsFrom: number,
    onLogits: OnLogits,
    signal?: AbortSignal,
    onStep?: () => void,
  ): Promise<void> {
    const start = slot.computed;
    const again = slot.tokens.slice(start);
    return this.add({
      slot,
      start,
      ids: again.length > 0 ? again.concat(Array.from(ids)) : ids,
      again: again.length,
      outputsFrom: outputsFrom + again.length,
      onLogits,
      onStep,
      encodes: false,
      signal,
    });
  }

  /**
   * Has the encoder read a whole prompt for a slot, whose tokens are forgotten.
   * @throws ERR_CONTEXT_FULL, what the step throws, or signal.reason; the slot then holds no prompt
   */
  encode(slot: Slot, prompt: readonly number[], signal?: AbortSignal): Promise<void> {
    slot.encode([]);
    return this.add({ slot, start: 0, ids: prompt, again: 0, outputsFrom: prompt.length, onLogits: () => {}, encodes: true, signal });
  }

  /** Ends everything that is being computed, and refuses later calls, with this error. */
  close(error: Error): void {
    this.closed = error;
    for (const job of this.jobs.splice(0)) job.reject(error);
  }

  private add(asked: JobRequest): Promise<void> {
    if (this.closed) return Promise.reject(this.closed);
    const { slot, start, ids } = asked;
    const end = start + ids.length;
    if (end > slot.capacity)
      return Promise.reject(new QuantletError('ERR_CONTEXT_FULL', `${end} tokens do not fit the context of ${slot.capacity}`));
    return new Promise((resolve, reject) => {
      this.jobs.push(new Job(asked, resolve, reject));
      this.schedule();
    });
  }

  /**
   * Starts a step at once if everyone with a slot has asked for tokens. Otherwise gives the others
   * until the next turn of the event loop.
   */
  private schedule(): void {
    if (this.running) return;
    if (this.jobs.length >= this.slots.active) return void this.runStep();
    this.timer ??= setTimeout(() => void this.runStep(), 0);
  }

  private async runStep(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.running = true;
    for (const job of this.jobs.filter((j) => j.signal?.aborted)) this.remove(job).reject(job.signal!.reason);
    const taken = this.fill();
    try {
      const row = await this.compute(taken);
      let output = 0;
      for (const [job, n] of taken) {
        const first = output;
        output += Math.max(0, job.done + n - Math.max(job.done, job.outputsFrom));
        job.slot.states?.commit();
        this.finish(job, n, (i) => row!(first + i));
      }
    } catch (error) {
      for (const job of taken.keys()) this.remove(job).reject(error);
    }
    this.running = false;
    if (this.jobs.length > 0) this.schedule();
  }

  /**
   * Runs the batch. A step of one sequence may be cut short; one that others share is finished, and
   * an aborted job dropped after it.
   */
  private async compute(taken: ReadonlyMap<Job, number>): Promise<((i: number) => Float32Array) | undefined> {
    if (taken.size === 0) return undefined;
    const { batch } = this;
    const signal = taken.size === 1 ? [...taken.keys()][0].signal : undefined;
    const before = performance.now();
    const row = await this.step(batch, signal);
    if (batch.nOutputs === batch.nTokens) this.costs.learn(batch.nTokens, performance.now() - before);
    return row;
  }

  /** Hands a job its results. An error of its caller is no concern of the other jobs. */
  private finish(job: Job, n: number, row: (i: number) => Float32Array): void {
    try {
      if (job.take(n, row)) this.remove(job).resolve();
    } catch (error) {
      this.remove(job).reject(error);
    }
  }

  /**
   * Fills the batch. Generations come first and whole, prompts share what is left, so that nobody's
   * next token waits for another's prompt.
   * @returns how many tokens each job has in it
   */
  private fill(): Map<Job, number> {
    const { jobs, batch } = this;
    const taken = new Map<Job, number>();
    batch.clear(jobs.some((job) => job.encodes));
    const isWhole = !this.causal || batch.encodes;
    const nBatch = batch.ids.length;
    const generating = isWhole ? 0 : jobs.reduce((n, job) => n + (job.generates ? job.left : 0), 0);
    const most = generating > 0 ? Math.min(nBatch, generating + PROMPT_BESIDE) : nBatch;
    for (const job of [...jobs].sort((a, b) => Number(b.generates) - Number(a.generates))) {
      if (job.encodes !== batch.encodes || (isWhole && !job.fitsInto(batch))) continue;
      const n = job.addTo(batch, most, isWhole, this.images);
      if (n > 0) taken.set(job, n);
    }
    return taken;
  }

  private remove(job: Job): Job {
    const at = this.jobs.indexOf(job);
    if (at >= 0) this.jobs.splice(at, 1);
    job.slot.truncate(job.slot.tokens.length); // drops recurrent states of tokens that the slot does not keep
    return job;
  }
}
