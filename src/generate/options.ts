/** Options of a generation. */
import type { ConstraintOptions } from '../grammar/constraint.ts';
import type { CallStarts } from '../sample/begun-calls.ts';
import type { SamplerOptions } from '../sample/options.ts';
import type { SpanBudget } from '../sample/span-budget.ts';
import type { GenerateSpeculation } from './draft/options.ts';
import type { GenerateProgress } from './progress.ts';
import type { Timings } from './timings.ts';

export interface GenerateOptions extends SamplerOptions, ConstraintOptions {
  /**
   * Maximum number of new tokens; undefined or -1: until the model ends the text or the context is
   * full.
   */
  maxTokens?: number | undefined;
  /** Texts that end the generation and are not part of its text. */
  stop?: string | readonly string[] | undefined;
  /** Ends the generation with signal.reason. The model stays usable. */
  signal?: AbortSignal | undefined;
  /**
   * Called while the prompt is read: before its first step and after each one (`phase` 'prompt'), and
   * while its images are encoded ('image'), unless they were encoded before.
   */
  onProgress?: ((progress: GenerateProgress) => void) | undefined;
  /**
   * Reads control tokens (`<|im_start|>`) in the prompt's text as these tokens, as llama-completion
   * does. Default true.
   */
  parseSpecial?: boolean | undefined;
  /** Continues after end-of-generation tokens. Default false. */
  ignoreEos?: boolean | undefined;
  /**
   * Adds to each part, and to the result, the log probability of each token and of this many most
   * probable tokens. Undefined: none.
   */
  logprobs?: number | undefined;
  /** Writes control tokens as text, except those that end the text. Default false. */
  special?: boolean | undefined;
  /**
   * Action if prompt and text together exceed the context. `error` (default) throws
   * ERR_CONTEXT_FULL, for a prompt that does not fit and for a text that fills the context before
   * maxTokens. `shift` drops the older half of the tokens after the first `keep`, computes the rest
   * again, and continues. `truncate-middle` cuts the middle out of a prompt that is too long, and
   * ends the text when the context is full.
   */
  onContextFull?: 'error' | 'shift' | 'truncate-middle' | undefined;
  /**
   * With `shift`: number of first prompt tokens that are never dropped, in addition to the token
   * that begins a sequence; -1: all. At most half of the context. Default 0.
   */
  keep?: number | undefined;
  /**
   * Drafts with fewer types or shorter than the model was loaded for, or not at all (false). Only
   * the speed depends on it.
   */
  speculation?: GenerateSpeculation | false | undefined;
  /**
   * Limit that chat derives from reasoningBudget. Not available together with a grammar.
   * @internal
   */
  spanBudget?: SpanBudget;
  /**
   * Mark after which the grammar or format begins: the end of open reasoning.
   * @internal
   */
  grammarAfter?: string;
  /**
   * The places in which `calls` may begin. All other text is free.
   * @internal
   */
  callStarts?: CallStarts;
  /**
   * Receives a function that returns the timings so far, because a generation that is stopped has
   * no result.
   * @internal
   */
  watch?: (soFar: () => Timings) => void;
}
