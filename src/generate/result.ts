/** Parts and result of a generation. */
import type { Logprobs } from '../sample/logprobs.ts';
import type { Relaxation } from '../grammar/schema/relaxed.ts';
import type { Timings } from './timings.ts';

/**
 * Reason for the end of a text or an answer. `stop`: the model, its grammar or a text of `stop`
 * ended it; `length`: maxTokens or the context cut it; `tool_calls`: it ended in calls of tools.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface GenerationPart {
  /** The token; -1 for a last part that has only text that was held back. */
  readonly id: number;
  /** Text completed by this token, possibly ''. */
  readonly text: string;
  /** Present if options.logprobs asks for it. */
  readonly logprobs?: Logprobs;
}

export interface GenerationResult {
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly text: string;
  /**
   * `stop`: ended by the model, its grammar, or a text of `stop` (stopText); `length`: maxTokens
   * reached, or the context is full.
   */
  readonly finishReason: Exclude<FinishReason, 'tool_calls'>;
  /** The text of `stop` that ended the generation. */
  readonly stopText?: string;
  /** One for each of ids; present if options.logprobs asks for them. */
  readonly logprobs?: readonly Logprobs[];
  readonly timings: Timings;
  /** Keywords of the response format's schema that were held only in part; absent without them. */
  readonly relaxed?: readonly Relaxation[];
}
