/** Options of a generation. */
import type { ConstraintOptions } from '../grammar/constraint.ts';
import type { SamplerOptions } from '../sample/options.ts';
import type { SpanBudget } from '../sample/span-budget.ts';
import type { GenerateSpeculation } from './draft/options.ts';
import type { Timings } from './timings.ts';

export interface GenerateOptions extends SamplerOptions, ConstraintOptions {
  /** New tokens at most; undefined or -1: until the model ends the text or the context is full. */
  maxTokens?: number;
  /** Texts that end the generation; they are not part of its text. */
  stop?: string | readonly string[];
  /** Ends the generation with signal.reason; the model is usable again. */
  signal?: AbortSignal;
  /** Read the text of control tokens (`<|im_start|>`) in the prompt as those tokens, as llama-completion does. Default true. */
  parseSpecial?: boolean;
  /** Go on after end-of-generation tokens. Default false. */
  ignoreEos?: boolean;
  /** Give each part, and the result, the log probability of each token and of this many most probable ones. Undefined: none. */
  logprobs?: number;
  /** Control tokens come out as text, except those that end it. Default false. */
  special?: boolean;
  /**
   * Where prompt and text together outgrow the context. `error` (default): a prompt that does not fit, and a text that fills the context before maxTokens,
   * end with ERR_CONTEXT_FULL. `shift`: the oldest half behind the first `keep` tokens is forgotten, the rest computed again, and the text goes on.
   * `truncate-middle`: a prompt that is too long loses its middle, and the text ends where the context is full.
   */
  onContextFull?: 'error' | 'shift' | 'truncate-middle';
  /** With `shift`: tokens of the prompt's beginning that are never forgotten, besides the one that begins a sequence; -1: all. Half of the context at most. Default 0. */
  keep?: number;
  /** Draft with fewer types or shorter than the model was loaded for, or not at all (false). Nothing but the speed depends on it. */
  speculation?: GenerateSpeculation | false;
  /** What chat makes of its reasoningBudget; not together with a grammar. @internal */
  spanBudget?: SpanBudget;
  /** Gets a function that tells at any moment what the text has taken so far: one that is stopped has no result. @internal */
  watch?: (soFar: () => Timings) => void;
}
