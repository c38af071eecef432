/**
 * Whether drafts pay. A step of several tokens costs more than a step of one, so a draft is verified only as far as its tokens are expected to be
 * right, and only as far as the loss, should all be wrong, is covered by what drafts have saved so far and a small allowance. Nothing here changes a
 * result. Costs are counted in plain tokens: what one of them takes without a draft.
 */
import type { StepCosts } from '../../engine/step-costs.ts';

export interface Latch {
  /** How many of at most `most` drafted tokens the next step should verify; 0: none. */
  plan(most: number): number;
  /** A step verified so many drafted tokens (maybe none, where a drafter found none), the first `accepted` of which were right; drafting took so long. */
  verified(drafted: number, accepted: number, ms: number): void;
  /** A step without a draft. `guessed`: whether the first token of one that was not used came; undefined: there was none. */
  plain(guessed?: boolean): void;
}

/** What a text may lose before anything was saved: drafts that turn out wrong, each time one costs a step of a few tokens. */
const ALLOWANCE = 3;
/** It grows by this with every plain token: no text becomes slower than 0.99 of itself, but for the allowance. */
const INTEREST = 0.01;
/** What a token that would have been right gives back of the allowance. */
const HINT = 0.25;
/** A draft has to promise this much more tokens in the same time. */
const WORTH = 1.02;
/** Chance that a drafted token is right, before anything is known. */
const PRIOR = 0.85;
/** What one tested token and what all tokens of a step count at most against what was known before. */
const TOKEN_RATE = 0.2;
const STEP_RATE = 0.5;
/** Where drafts do not pay, a short one is tried all the same after so many tokens, then after twice as many, and so on. */
const FIRST_PAUSE = 8;
const LAST_PAUSE = 1024;
const TRIAL = 3;
/** Drafts make a step one of so many tokens: products are made for multiples of four. */
const STEP_TOKENS = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];
/** After so many drafted steps one is made without, to learn again what a plain token costs; next to drafts that pay it is cheap. */
const MOST_DRAFTED = 64;

/** @param beside how many sequences take part in a step besides this one */
export function createLatch(costs: StepCosts, beside: () => number): Latch {
  let chance = PRIOR;
  let saved = ALLOWANCE;
  let pause = FIRST_PAUSE;
  let rested = Infinity;
  let drafts = 0;
  /** Milliseconds that drafting a token takes. */
  let draftMs = 0;

  /** What verifying n more tokens costs in plain tokens of this step's sequences. */
  const costOf = (n: number, ms: number, others: number): number =>
    ((costs.of(others + 1 + n) - costs.of(others + 1) + ms) * (others + 1)) / costs.of(others + 1);
  const learn = (right: number, tested: number): void => {
    chance += Math.min(TOKEN_RATE * tested, STEP_RATE) * (right / tested - chance);
  };

  return {
    plan(most) {
      if (most === 0 || drafts >= MOST_DRAFTED) return 0;
      if (rested === Infinity) return Math.min(TRIAL, most); // nobody knows before the first
      const others = beside();
      const affordable = (n: number): boolean => costOf(n, n * draftMs, others) <= saved;
      let best = 0;
      let bestRate = WORTH;
      for (let i = 0; i < STEP_TOKENS.length; i++) {
        const n = Math.min(STEP_TOKENS[i] - 1, most);
        if (!affordable(n)) break;
        const expected = chance < 1 ? (chance * (1 - chance ** n)) / (1 - chance) : n;
        const rate = (1 + expected) / (1 + costOf(n, n * draftMs, others));
        if (rate > bestRate) [best, bestRate] = [n, rate];
        if (n === most) break;
      }
      if (best > 0 || rested < pause) return best;
      for (let n = Math.min(TRIAL, most); n > 0; n--) if (affordable(n)) return n;
      return 0;
    },
    verified(drafted, accepted, ms) {
      const cost = costOf(drafted, ms, beside());
      saved += accepted - cost;
      pause = accepted > cost ? FIRST_PAUSE : Math.min(rested < pause ? pause : 2 * pause, LAST_PAUSE);
      rested = 0;
      drafts++;
      learn(accepted, accepted < drafted || drafted === 0 ? accepted + 1 : accepted);
      if (ms > 0) draftMs += (draftMs === 0 ? 1 : STEP_RATE) * (ms / Math.max(drafted, 1) - draftMs);
    },
    plain(guessed) {
      rested++;
      drafts = 0;
      saved += INTEREST;
      if (guessed === undefined) return;
      learn(guessed ? 1 : 0, 1);
      if (guessed && saved < ALLOWANCE) saved = Math.min(saved + HINT, ALLOWANCE);
    },
  };
}
