/** Drafts of one generation: the sequence that they continue, and counts of accepted tokens. */
import type { DraftCounts } from '../timings.ts';
import type { Drafting } from './drafter.ts';

/** Asks for drafts step by step and counts how many were right. */
export class Drafts {
  private drafting: Drafting | undefined;
  /** Restarts drafting: after a context shift, nothing that was learned applies. */
  private readonly restart: () => Drafting | undefined;
  /**
   * The sequence that the slot will hold: prompt and text, without what a context shift dropped.
   */
  private sequence: number[];
  /** Length of the text that is part of `sequence`. */
  private nText = 0;
  private tokens = 0;
  private steps = 0;
  private readonly acceptedAt: number[] = [];

  /** @param prompt the tokens that the text follows */
  constructor(start: () => Drafting | undefined, prompt: readonly number[]) {
    this.restart = start;
    this.drafting = start();
    this.sequence = this.drafting ? prompt.slice() : [];
  }

  /**
   * Appends a draft to the tokens of the next step.
   * @param text all tokens of the text so far
   * @param most gives the longest draft that could still be used, for a sequence of this length
   */
  propose(text: readonly number[], tokens: number[], most: (length: number) => number): Promise<void> | undefined {
    if (!this.drafting) return undefined;
    for (; this.nText < text.length; this.nText++) this.sequence.push(text[this.nText]);
    const before = tokens.length;
    const count = (): void => {
      this.tokens += tokens.length - before;
      if (tokens.length > before) this.steps++;
    };
    const asked = this.drafting.propose(this.sequence, most(this.sequence.length), tokens);
    if (asked) return asked.then(count);
    count();
    return undefined;
  }

  /**
   * Call when the prompt (or the sequence left by a context shift) is computed: the draft model
   * reads it, too.
   */
  begin(): Promise<void> | undefined {
    return this.drafting?.begin(this.sequence);
  }

  /** Counts the token at `index` of a draft as right. */
  accept(index: number): void {
    this.acceptedAt[index] = (this.acceptedAt[index] ?? 0) + 1;
  }

  /**
   * Continues with the sequence left by a context shift. It ends with the whole text so far, which
   * has `nText` tokens.
   */
  shift(sequence: readonly number[], nText: number): void {
    if (!this.drafting) return;
    this.drafting = this.restart();
    this.sequence = sequence.slice();
    this.nText = nText;
  }

  /** Undefined if nothing was drafted. */
  counts(): DraftCounts | undefined {
    const { tokens, steps, acceptedAt } = this;
    return tokens > 0 ? { tokens, accepted: acceptedAt.reduce((a, b) => a + b, 0), steps, acceptedAt } : undefined;
  }
}
