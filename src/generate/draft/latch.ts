/**
 * Decides how many drafted tokens a step should verify. A step of several tokens costs more than a
 * step of one. So a draft is verified only as far as its tokens are expected to be right, and only
 * if the loss, should all be wrong, is covered by what drafts have saved so far plus a small
 * allowance. Results do not depend on this. Costs are in plain tokens: the time of one token
 * without a draft.
 */
import type { StepCosts } from '../../run/step-costs.ts';

export interface Latch {
  /** Number of drafted tokens that the next step should verify, at most `most`; 0: none. */
  plan(most: number): number;
  /**
   * Reports a step that verified `drafted` tokens (0 if a drafter found none), of which the first
   * `accepted` were right. `ms` is the time of drafting.
   */
  verified(drafted: number, accepted: number, ms: number): void;
  /**
   * Reports a step without a draft. `guessed`: the first token of an unused draft was right;
   * undefined: there was no draft.
   */
  plain(guessed?: boolean): void;
}

/**
 * Plain tokens that a text may lose before drafts have saved any: each wrong draft costs a step of
 * a few tokens.
 */
const ALLOWANCE = 3;
/**
 * Growth of the allowance with every plain token. It bounds the slowdown to 1 %, apart from
 * ALLOWANCE.
 */
const INTEREST = 0.01;
/** Part of the allowance restored by an unused draft whose first token was right. */
const HINT = 0.25;
/** Speed-up that a draft must promise to be verified. */
const WORTH = 1.02;
/** Initial estimate of the probability that a drafted token is right. */
const PRIOR = 0.85;
/**
 * Greatest weights of new results in that estimate: of one tested token, and of all tokens of a
 * step.
 */
const TOKEN_RATE = 0.2;
const STEP_RATE = 0.5;
/**
 * If drafts do not pay, a short one of TRIAL tokens is still tried after FIRST_PAUSE plain tokens,
 * and the pause doubles up to LAST_PAUSE.
 */
const FIRST_PAUSE = 8;
const LAST_PAUSE = 1024;
const TRIAL = 3;
/** Sizes of steps with drafts. Products are most efficient at multiples of four. */
const STEP_TOKENS = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];
/**
 * Longest run of steps with drafts. One step without a draft then measures the cost of a plain
 * token again, which is cheap while drafts pay.
 */
const MOST_DRAFTED = 64;

/** @param beside number of other sequences that take part in a step */
export function createLatch(costs: StepCosts, beside: () => number): Latch {
  let chance = PRIOR;
  let saved = ALLOWANCE;
  let pause = FIRST_PAUSE;
  let rested = Infinity;
  let drafts = 0;
  /** Milliseconds to draft one token. */
  let draftMs = 0;

  /** Cost of verifying n more tokens, in plain tokens of this step's sequences. */
  const costOf = (n: number, ms: number, others: number): number =>
    ((costs.of(others + 1 + n) - costs.of(others + 1) + ms) * (others + 1)) / costs.of(others + 1);
  const learn = (right: number, tested: number): void => {
    chance += Math.min(TOKEN_RATE * tested, STEP_RATE) * (right / tested - chance);
  };

  return {
    plan(most) {
      if (most === 0 || drafts >= MOST_DRAFTED) return 0;
      if (rested === Infinity) return Math.min(TRIAL, most); // no results yet
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
