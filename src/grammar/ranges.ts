/** Sets of code points as ranges. */

/** The last code point of Unicode. */
export const MAX_CODE_POINT = 0x10ffff;

/** First and last surrogate: halves of UTF-16 pairs, which UTF-8 cannot encode. */
const SURROGATES = [0xd800, 0xdfff] as const;

export const isSurrogate = (code: number): boolean => code >= SURROGATES[0] && code <= SURROGATES[1];

/**
 * Sorts and merges ranges, without surrogates: flat [low, high, low, high ...]. If `negated`,
 * returns all other code points.
 */
export function normalizeRanges(pairs: readonly (readonly [low: number, high: number])[], negated: boolean): number[] {
  const merged: number[] = [];
  for (const [low, high] of [...pairs].sort((a, b) => a[0] - b[0])) {
    if (merged.length > 0 && low <= merged[merged.length - 1] + 1) merged[merged.length - 1] = Math.max(merged[merged.length - 1], high);
    else merged.push(low, high);
  }
  return withoutSurrogates(negated ? complement(merged) : merged);
}

/** The code points outside of the given ascending ranges. */
function complement(ranges: readonly number[]): number[] {
  const others: number[] = [];
  let from = 0;
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i] > from) others.push(from, ranges[i] - 1);
    from = ranges[i + 1] + 1;
  }
  if (from <= MAX_CODE_POINT) others.push(from, MAX_CODE_POINT);
  return others;
}

function withoutSurrogates(ranges: readonly number[]): number[] {
  const whole: number[] = [];
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i] < SURROGATES[0]) whole.push(ranges[i], Math.min(ranges[i + 1], SURROGATES[0] - 1));
    if (ranges[i + 1] > SURROGATES[1]) whole.push(Math.max(ranges[i], SURROGATES[1] + 1), ranges[i + 1]);
  }
  return whole;
}
