import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createStopMatcher } from '../src/generate/stop.ts';

/** Splits `text` at `cuts` (fractions of its length) and pushes the pieces. */
function run(text: string, stops: string[], cuts: number[]): { text: string; stopped: string | undefined } {
  const matcher = createStopMatcher(stops);
  const at = [0, ...cuts.map((cut) => Math.floor(cut * text.length)).sort((a, b) => a - b), text.length];
  let out = '';
  let stopped: string | undefined;
  for (let i = 1; i < at.length; i++) {
    const result = matcher.push(text.slice(at[i - 1], at[i]));
    out += result.text;
    stopped = result.stopped;
  }
  return { text: out + matcher.end(), stopped };
}

/** The slow, obvious answer: extend the text by one character until it ends in a stop string. */
function reference(text: string, stops: string[]): { text: string; stopped: string | undefined } {
  for (let end = 1; end <= text.length; end++) {
    const hits = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length);
    if (hits.length > 0) return { text: text.slice(0, end - hits[0].length), stopped: hits[0] };
  }
  return { text, stopped: undefined };
}

describe('createStopMatcher', () => {
  it('gives the reference answer for any chunking', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 24 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 5 }), { maxLength: 4 });
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });
    fc.assert(
      fc.property(letters, stops, cuts, (text, words, at) => {
        expect(run(text, words, at)).toEqual(reference(text, words));
      }),
      { seed: 14, numRuns: 2000 },
    );
  });

  it('holds back no more than a possible beginning of a stop string', () => {
    const matcher = createStopMatcher(['<|im_end|>']);
    expect(matcher.push('a < b')).toEqual({ text: 'a < b', stopped: undefined });
    expect(matcher.push(' <|im')).toEqual({ text: ' ', stopped: undefined });
    expect(matcher.push('age')).toEqual({ text: '<|image', stopped: undefined });
    expect(matcher.push('<|im_end|>tail')).toEqual({ text: '', stopped: '<|im_end|>' });
    expect(matcher.push('more')).toEqual({ text: '', stopped: '<|im_end|>' });
    expect(matcher.end()).toBe('');
  });

  it('refuses an empty stop string', () => {
    expect(() => createStopMatcher(['x', ''])).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});
