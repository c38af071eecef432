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

/** Measures one generation, from the moment its prompt is computed. */
export class Stopwatch {
  private readonly begun = performance.now();
  private promptMs = 0;
  private neuronBytes = 0;
  /** Counts bytes of neurons that were read from the file, of all sequences. */
  private readonly neurons: { readonly bytes: number } | undefined;

  constructor(neurons: { readonly bytes: number } | undefined) {
    this.neurons = neurons;
  }

  /** The prompt is computed and the first token chosen. Later calls do nothing. */
  promptRead(): void {
    if (this.promptMs > 0) return;
    this.promptMs = performance.now() - this.begun;
    this.neuronBytes = this.neurons?.bytes ?? 0;
  }

  timings(promptTokens: number, predictedTokens: number, draft: DraftCounts | undefined): Timings {
    const ms = performance.now() - this.begun;
    return {
      promptTokens,
      promptMs: this.promptMs || ms,
      predictedTokens,
      predictedMs: this.promptMs && ms - this.promptMs,
      ...(draft ? { draft } : {}),
      ...(this.neurons ? { neuronBytes: this.neurons.bytes - this.neuronBytes } : {}),
    };
  }
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
