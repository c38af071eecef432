import { describe, expect, test } from 'vitest';
import { createCandidates, dropBanned, loadCandidates, pick, selectTop, softmax, sortCandidates } from '../../src/sample/candidates.ts';
import { createRandom } from '../../src/sample/random.ts';

const seed = 77;

/** Random logits with few distinct values if `steps` is small, so that ties are common. */
function someLogits(n: number, steps: number): Float32Array {
  const random = createRandom(seed + n);
  return Float32Array.from({ length: n }, () => Math.round((random.next() - 0.5) * steps) / 8);
}

function referenceTop(logits: Float32Array, k: number): number[] {
  return Array.from(logits.keys())
    .sort((a, b) => logits[b] - logits[a] || a - b)
    .slice(0, k);
}

describe('candidates', () => {
  for (const n of [1, 2, 3, 31, 1025, 5000]) {
    for (const steps of [4, 400]) {
      test(`selectTop of ${n}, values on ${steps} steps`, () => {
        const logits = someLogits(n, steps);
        logits[n >> 1] = -0;
        const c = createCandidates(n);
        for (const k of [1, 2, 5, 40, 1024, 1025, 4000, n]) {
          loadCandidates(c, logits);
          selectTop(c, k);
          const want = referenceTop(logits, k);
          expect(Array.from(c.ids.subarray(0, c.size)), `k ${k}, seed ${seed + n}`).toEqual(want);
          expect(Array.from(c.logits.subarray(0, c.size), (v) => v + 0)).toEqual(want.map((id) => logits[id] + 0));
        }
      });
    }
  }

  test('the sort keeps every float: zeros, subnormals, extremes', () => {
    const values = new Float32Array([0, 1e-45, -1e-45, 3.4028234663852886e38, -3.4028234663852886e38, 1, -1, 0.1, -0.1]);
    const c = createCandidates(3000);
    const logits = Float32Array.from({ length: 3000 }, (_, i) => values[i % values.length]);
    loadCandidates(c, logits);
    sortCandidates(c);
    expect(Array.from(c.ids)).toEqual(referenceTop(logits, 3000));
    expect(Array.from(c.logits)).toEqual(Array.from(c.ids, (id) => logits[id]));
  });

  test('banned tokens are removed, NaN and Infinity are refused, the input is unchanged', () => {
    const c = createCandidates(6);
    const logits = new Float32Array([1, -Infinity, 2, -Infinity, 0, -Infinity]);
    const before = logits.slice();
    loadCandidates(c, logits);
    dropBanned(c);
    expect(Array.from(c.ids.subarray(0, c.size))).toEqual([0, 2, 4]);
    softmax(c);
    expect(logits).toEqual(before);
    for (const bad of [NaN, Infinity]) {
      for (const at of [0, 3, 5]) {
        const broken = new Float32Array(6);
        broken[at] = bad;
        expect(() => loadCandidates(c, broken), `${bad} at ${at}`).toThrow(
          expect.objectContaining({ code: 'ERR_LOGITS', message: expect.stringContaining(`token ${at} is ${bad}`) }),
        );
      }
    }
    loadCandidates(c, new Float32Array(6).fill(-Infinity));
    expect(() => dropBanned(c)).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
    expect(() => loadCandidates(c, new Float32Array(5))).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });

  test('softmax and pick by hand', () => {
    const c = createCandidates(4);
    loadCandidates(c, Float32Array.from([0.1, 0.2, 0.3, 0.4], Math.log));
    softmax(c);
    Array.from(c.p).forEach((p, i) => expect(p).toBeCloseTo((i + 1) / 10, 7)); // logits are floats
    expect([0, 0.09, 0.11, 0.29, 0.31, 0.59, 0.61, 1 - 2 ** -53].map((u) => c.ids[pick(c, u)])).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    c.p.set([0, 1, 0, 0]);
    expect([0, 0.5, 1 - 2 ** -53].map((u) => pick(c, u))).toEqual([1, 1, 1]);
  });
});
