/** Arithmetic on vectors: fewer dimensions, fewer bits, similarity, search. */
import { similarity, topK } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { normalized, quantized, shortened } from '../../src/generate/vectors.ts';

const row = Float32Array.of(0.5, -0.25, 0, 0.125, -1, 1e-9, 0.75, -0.5, 0.1, -0.1);
const invalid = (says: RegExp) =>
  expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) as string }) as Error;

describe('precision', () => {
  it('int8: the largest magnitude is 127', () => {
    expect([...quantized(row, 'int8')]).toEqual([64, -32, 0, 16, -127, 0, 95, -63, 13, -13]);
    expect([...quantized(Float32Array.of(0, 0), 'int8')]).toEqual([0, 0]);
  });
  it('ubinary and binary are the bits above 0, from the highest on, as numpy.packbits gives them', () => {
    // sentence_transformers.quantize_embeddings([row], 'ubinary') and 'binary'
    expect(quantized(row, 'ubinary')).toEqual(Uint8Array.of(0b10010110, 0b10000000));
    expect(quantized(row, 'binary')).toEqual(Int8Array.of(0b10010110 - 128, 0));
    expect(quantized(row, 'float32')).toBe(row);
  });
  it.each(['int8', 'ubinary', 'binary'] as const)('%s refuses NaN and Infinity', (precision) => {
    for (const x of [NaN, -Infinity])
      expect(() => quantized(Float32Array.of(1, x), precision)).toThrow(expect.objectContaining({ code: 'ERR_LOGITS' }));
  });
});

it('fewer dimensions are the first ones', () => {
  expect([...normalized(shortened(Float32Array.of(3, 4, 12), 2), 2)].map((x) => Math.round(x * 1e6))).toEqual([600000, 800000]);
  expect(shortened(row, 10)).toBe(row);
  expect(() => shortened(row, 11)).toThrow(invalid(/dimensions is 11; expected 1 to 10/));
});

describe('similarity', () => {
  it('is the cosine', () => {
    expect(similarity(Float32Array.of(3, 4), [6, 8])).toBeCloseTo(1, 12);
    expect(similarity([1, 0], [0, 2])).toBe(0);
    expect(similarity(Int8Array.of(1, 1), Int8Array.of(-1, -1))).toBeCloseTo(-1, 12);
    expect(similarity([0, 0], [1, 1])).toBe(0);
  });
  it('of binary vectors is that of their signs', () => {
    const other = Float32Array.of(-0.5, -0.25, 0.1, 0.125, -1, 1, 0.75, -0.5);
    const signs = (v: Float32Array): number[] => Array.from(v.subarray(0, 8), (x) => (x > 0 ? 1 : -1));
    const want = similarity(signs(row), signs(other));
    const bits = (p: 'ubinary' | 'binary') => [row.subarray(0, 8), other].map((v) => quantized(v, p));
    expect(similarity(bits('ubinary')[0], bits('ubinary')[1])).toBeCloseTo(want, 12);
    expect(similarity(bits('binary')[0], bits('binary')[1], { precision: 'binary' })).toBeCloseTo(want, 12);
  });
  it('refuses vectors of different lengths, and what is no vector', () => {
    expect(() => similarity([1], [1, 2])).toThrow(invalid(/the second vector has 2 numbers and the first vector 1/));
    expect(() => similarity([], [])).toThrow(invalid(/0 numbers/));
    expect(() => similarity('ab' as never, [1, 2])).toThrow(invalid(/the first vector is "ab"/));
    expect(() => similarity([1], [1], { precision: 'f16' as never })).toThrow(invalid(/precision/));
  });
});

describe('topK', () => {
  const vectors = [
    [1, 0],
    [0, 1],
    [1, 1],
    [2, 0],
    [-1, 0],
  ].map((v) => Float32Array.from(v));
  it('gives the nearest first, of equal ones the first', () => {
    expect(topK([1, 0], vectors, 3).map(({ index }) => index)).toEqual([0, 3, 2]);
    expect(topK([1, 0], new Set(vectors), 99).map(({ index }) => index)).toEqual([0, 3, 2, 1, 4]);
    expect(topK([1, 0], [], 3)).toEqual([]);
  });
  it('agrees with a full sort', () => {
    const many = Array.from({ length: 500 }, (_, i) => Float32Array.of(Math.sin(i * i), Math.cos(3 * i), Math.sin(5 * i)));
    const query = Float32Array.of(0.3, -0.7, 0.2);
    const want = many.map((v, index) => ({ index, score: similarity(query, v) })).sort((a, b) => b.score - a.score || a.index - b.index);
    for (const k of [1, 7, 10]) expect(topK(query, many, k)).toEqual(want.slice(0, k));
  });
  it('refuses a vector of another length, and k below 1', () => {
    expect(() => topK([1, 0], [...vectors, Float32Array.of(1)])).toThrow(invalid(/vector 6 has 1 numbers/));
    expect(() => topK([1, 0], vectors, 0)).toThrow(invalid(/k is 0/));
  });
});
