import { expect, test } from 'vitest';
import { logprobs } from '../../src/sample/logprobs.ts';
import { createRandom } from '../../src/sample/random.ts';
import { byLogit, probabilities } from './reference.ts';

test('logprobs by hand', () => {
  const logits = Float32Array.from([0.1, 0.2, 0.3, 0.4], Math.log);
  const got = logprobs(logits, 1, 2);
  expect(got.id).toBe(1);
  expect(got.logprob).toBeCloseTo(Math.log(0.2), 6);
  expect(got.top.map((t) => t.id)).toEqual([3, 2]);
  expect(got.top[0].logprob).toBeCloseTo(Math.log(0.4), 6);
  expect(logprobs(logits, 0, 0).top).toEqual([]);
  expect(logprobs(new Float32Array([0, -Infinity, 0]), 1, 3)).toMatchObject({ logprob: -Infinity, top: [{ id: 0 }, { id: 2 }, { id: 1 }] });
});

test('the n most probable tokens against a sort, ties by id', () => {
  const random = createRandom(31);
  for (const n of [1, 5, 20, 100, 5000]) {
    const logits = Float32Array.from({ length: 3000 }, () => Math.round(random.next() * 200) / 8);
    const tokens = Array.from(logits, (logit, id) => ({ id, logit }));
    const p = probabilities(tokens);
    const got = logprobs(logits, 17, n);
    expect(got.top.map((t) => t.id)).toEqual(
      byLogit(tokens)
        .slice(0, n)
        .map((t) => t.id),
    );
    for (const { id, logprob } of got.top) expect(logprob).toBeCloseTo(Math.log(p[id]), 9);
  }
});

test('refusals', () => {
  expect(() => logprobs(new Float32Array([0, NaN]), 0, 1)).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
  expect(() => logprobs(new Float32Array(2).fill(-Infinity), 0, 1)).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
  for (const [id, n] of [
    [2, 1],
    [-1, 1],
    [0, -1],
    [0, 1.5],
  ])
    expect(() => logprobs(new Float32Array(2), id, n)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
});
