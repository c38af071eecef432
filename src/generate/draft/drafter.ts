/** What drafts are to the loop that generates, and what makes them. Results never depend on them: every drafted token is verified. */
import type { Slot } from '../../engine/slots.ts';
import type { GenerateSpeculation } from './options.ts';

/** One way to draft, for one sequence. */
export interface Drafter {
  /**
   * Appends to `out` the tokens that it expects behind `tokens`, at most `most` of them, maybe none.
   * @param tokens the sequence so far: the prompt and what was generated
   */
  draft(tokens: readonly number[], most: number, out: number[]): void | Promise<void>;
  /** Computes the prompt, before anybody waits for a draft. */
  begin?(tokens: readonly number[]): Promise<void>;
  /** Whether drafts take no time worth counting: it is then asked before every step, and learnt from although its draft is not used. */
  readonly free: boolean;
}

/** The drafts of one generation. */
export interface Drafting {
  /** The prompt is computed: now the draft model computes it, if there is one. */
  begin(tokens: readonly number[]): Promise<void> | undefined;
  /**
   * Appends to `out` what the next step should verify behind the last of `tokens`, at most `most` tokens. From `tokens` it also learns what became of
   * the draft before. Before the prompt is computed it drafts with n-grams alone: the draft model would be waited for.
   */
  propose(tokens: readonly number[], most: number, out: number[]): Promise<void> | undefined;
}

/** What the generations of a model share. */
export interface Speculation {
  /** The drafts of a generation in this slot; undefined: none. @throws ERR_INVALID_ARGUMENT */
  start(options: GenerateSpeculation | false | undefined, slot: Slot, signal: AbortSignal | undefined): Drafting | undefined;
  /** Nobody generates: the draft model's threads may go home. */
  rest(): void;
  /** Frees the draft model. */
  dispose(): Promise<void>;
}
