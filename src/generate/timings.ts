/** Tokens and milliseconds of a generation. */

export interface Timings {
  /** Prompt tokens that were computed; those that the cache still held are not among them. */
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly predictedTokens: number;
  readonly predictedMs: number;
  /** Present if something was drafted. */
  readonly draft?: DraftCounts;
  /** With neuronWindow: bytes of neurons that were read from the file meanwhile, of whatever sequence. */
  readonly neuronBytes?: number;
}

/** As llama-server counts it: all tokens by the time behind the first. One alone took none of that: 0. */
export const predictedPerSecond = ({ predictedTokens: n, predictedMs }: Timings): number =>
  n > 1 && predictedMs > 0 ? (1000 * n) / predictedMs : 0;

/** Drafts of a generation, and how many were right. */
export interface DraftCounts {
  /** Tokens that were drafted and computed. */
  readonly tokens: number;
  /** Those of them that are part of the text. */
  readonly accepted: number;
  /** Steps that verified a draft. */
  readonly steps: number;
  /** Number of drafts that were right up to their first token, their second, and so on. */
  readonly acceptedAt: readonly number[];
}

/** The same by llama-server's names, for its `timings`. */
export const draftTimings = ({ draft }: Timings): { draft_n?: number; draft_n_accepted?: number } =>
  draft ? { draft_n: draft.tokens, draft_n_accepted: draft.accepted } : {};
