/**
 * Interfaces between drafts and the loop that generates. Every drafted token is verified, so
 * results never depend on drafts.
 */
import type { Slot } from '../../run/slots.ts';
import type { GenerateSpeculation } from './options.ts';

/** A method of drafting, for one sequence. */
export interface Drafter {
  /**
   * Appends up to `most` tokens to `out` that are expected after `tokens`; possibly none.
   * @param tokens the sequence so far: the prompt and the generated tokens
   */
  draft(tokens: readonly number[], most: number, out: number[]): void | Promise<void>;
  /** Computes the prompt ahead of the first draft. */
  begin?(tokens: readonly number[]): Promise<void>;
  /**
   * Drafting takes negligible time. Such a drafter is asked before every step, and its latch learns
   * also from drafts that are not used.
   */
  readonly free: boolean;
}

/** Drafts of one generation. */
export interface Drafting {
  /**
   * Called when the prompt is computed. If there is a draft model, it now computes the prompt, too.
   */
  begin(tokens: readonly number[]): Promise<void> | undefined;
  /**
   * Appends to `out` up to `most` tokens that the next step should verify, after the last of
   * `tokens`. From `tokens` it also learns how much of the previous draft was right. Before
   * begin(), only n-grams are used, because the draft model would have to compute the prompt first.
   */
  propose(tokens: readonly number[], most: number, out: number[]): Promise<void> | undefined;
}

/** Speculation of a model, shared by its generations. */
export interface Speculation {
  /**
   * Drafts of a generation in this slot; undefined: no speculation.
   * @throws ERR_INVALID_ARGUMENT
   */
  start(options: GenerateSpeculation | false | undefined, slot: Slot, signal: AbortSignal | undefined): Drafting | undefined;
  /** Called when no generation runs: lets the draft model's threads end. */
  rest(): void;
  /** Frees the draft model. */
  dispose(): Promise<void>;
}
