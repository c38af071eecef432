/** The part of a prompt and its text that the context still has. */
import type { Slot } from '../run/slots.ts';
import { withoutMiddle } from './checked.ts';

/**
 * Tracks the room that a sequence has left in its slot, and makes room by dropping the middle of
 * the sequence.
 */
export class ContextWindow {
  /** Tokens of prompt and text that were dropped. */
  private dropped = 0;

  private readonly slot: Slot;
  /** Tokens of the prompt, and tokens that fit. */
  private readonly nPrompt: number;
  private readonly contextLength: number;
  /** First tokens that are never dropped. */
  private readonly keep: number;

  constructor(slot: Slot, nPrompt: number, contextLength: number, keep: number) {
    this.slot = slot;
    this.nPrompt = nPrompt;
    this.contextLength = contextLength;
    this.keep = keep;
  }

  /** True if the last of `nText` tokens has no cell. */
  isFull(nText: number): boolean {
    return this.nPrompt + nText - this.dropped > this.contextLength;
  }

  /**
   * Drops half of what follows the first `keep` tokens.
   * @param lastId the newest token, which the slot does not have yet
   * @returns the sequence that is left. Keys depend on positions, so everything after the gap has
   * to be computed again
   */
  shift(lastId: number): number[] {
    const all = [...this.slot.tokens, lastId];
    const left = withoutMiddle(all, this.keep, this.keep + ((all.length - this.keep) >> 1));
    this.dropped += all.length - left.length;
    return left;
  }

  /** Truncates the slot to the `seen` tokens that the caller received. */
  leave(seen: number): void {
    this.slot.truncate(this.nPrompt + Math.max(seen - 1, 0) - this.dropped);
  }
}
