/** Search for stop strings in a text that arrives in pieces. */
import { QuantletError } from '../errors.ts';

/**
 * Result of a push: text that may be shown now, and the stop string that ended the text, if any.
 */
export interface StopResult {
  readonly text: string;
  readonly stopped: string | undefined;
}

/** Search of one text for stop strings; see {@link createStopMatcher}. */
export interface StopMatcher {
  /** Takes the next piece. After a stop, all further pieces are dropped. */
  push(text: string): StopResult;
  /** Ends the text. Returns the text that was held back and can no longer become a stop string. */
  end(): string;
}

/**
 * Finds the first stop string in a text that arrives in pieces.
 *
 * The match that ends first wins; of matches that end together, the longest. This depends only on
 * the text, so any chunking gives the same answer. Only the longest tail that is still a prefix of
 * a stop string is held back.
 *
 * @param stops strings that end the text and are not part of it. With none, everything passes.
 * @throws QuantletError ERR_INVALID_ARGUMENT for an empty stop string, which would end every text
 * before it starts
 */
export function createStopMatcher(stops: readonly string[]): StopMatcher {
  if (!Array.isArray(stops) || stops.some((stop) => typeof stop !== 'string')) {
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'a stop string is not a string; expected a text or an array of texts');
  }
  if (stops.some((stop) => stop === '')) {
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'a stop string is empty; expected at least one character: remove it from the list');
  }
  let pending = '';
  let stopped: string | undefined;
  return {
    push(text) {
      if (stopped !== undefined) return { text: '', stopped };
      if (stops.length === 0) return { text, stopped };
      pending += text;
      const match = firstMatch(pending, stops);
      const keep = match ? match.start : pending.length - tailLength(pending, stops);
      const passed = pending.slice(0, keep);
      pending = match ? '' : pending.slice(keep);
      stopped = match?.stop;
      return { text: passed, stopped };
    },
    end() {
      const rest = pending;
      pending = '';
      return rest;
    },
  };
}

function firstMatch(text: string, stops: readonly string[]): { start: number; stop: string } | undefined {
  let best: { start: number; stop: string } | undefined;
  for (const stop of stops) {
    const start = text.indexOf(stop);
    if (start < 0) continue;
    const later = best === undefined ? -1 : start + stop.length - (best.start + best.stop.length);
    if (best === undefined || later < 0 || (later === 0 && start < best.start)) best = { start, stop };
  }
  return best;
}

/** Length of the longest tail of `text` that is a proper prefix of one of `words`. */
export function tailLength(text: string, words: readonly string[]): number {
  let longest = 0;
  for (const word of words) {
    for (let n = Math.min(word.length - 1, text.length); n > longest; n--) {
      if (text.endsWith(word.slice(0, n))) longest = n;
    }
  }
  return longest;
}
