/** Counts of tokens, and times in milliseconds, of a generation. */

export interface Timings {
  /** Prompt tokens that were computed, without those that were still in the cache. */
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly predictedTokens: number;
  readonly predictedMs: number;
  /** Present if anything was drafted. */
  readonly draft?: DraftCounts;
  /**
   * With neuronWindow: bytes of neurons read from the file during this generation, for any
   * sequence.
   */
  readonly neuronBytes?: number;
}

/**
 * Tokens per second as llama-server counts them: all tokens, by the time after the first one. 0 for
 * a single token, which has no such time.
 */
export const predictedPerSecond = ({ predictedTokens: n, predictedMs }: Timings): number =>
  n > 1 && predictedMs > 0 ? (1000 * n) / predictedMs : 0;

/** Counts of a generation's drafts. */
export interface DraftCounts {
  /** Tokens drafted and computed. */
  readonly tokens: number;
  /** Drafted tokens that are part of the text. */
  readonly accepted: number;
  /** Steps that verified a draft. */
  readonly steps: number;
  /** Number of drafts that were right up to their first token, their second, and so on. */
  readonly acceptedAt: readonly number[];
}

/** Draft counts by llama-server's names, for its `timings`. */
export const draftTimings = ({ draft }: Timings): { draft_n?: number; draft_n_accepted?: number } =>
  draft ? { draft_n: draft.tokens, draft_n_accepted: draft.accepted } : {};
