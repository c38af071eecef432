/**
 * Memory as graphs of operators see it, slow and obvious: buffers of numbers, strided windows into
 * them, and steps that compute in f64 and store in a type. Steps run one after the other, each
 * reading all its sources before it writes.
 *
 * Every number is kept twice: the right value, and one with rounding errors (`other`), which each
 * step perturbs a little. The distance between the two at the end is the tolerance for a right
 * answer. Steps that only move numbers keep both equal.
 */
import { TYPE, type TypeName } from '../../src/type-traits.ts';
import { evaluateOn, stored, type View } from './golden-ops.ts';

export type Four = readonly [number, number, number, number];

export interface Buffer {
  readonly type: TypeName;
  /** Initial values; undefined for buffers that a step writes first. */
  readonly init: Float64Array | undefined;
  readonly value: Float64Array;
  readonly other: Float64Array;
  /** 1 if the element is a result of arithmetic. */
  readonly inexact: Uint8Array;
}

/** Strides and offset in blocks (elements, for types without blocks). */
export interface Window {
  readonly buffer: Buffer;
  readonly ne: Four;
  readonly nb: Four;
  readonly offset: number;
}

export interface Step {
  /** Name of the operator in golden-ops.ts. */
  readonly op: string;
  readonly src: readonly (Window | null)[];
  readonly params: Readonly<{ [name: string]: number }>;
  readonly dst: Window;
  /**
   * Tolerated relative error of a result; 0: same bits as the reference if the sources are exact.
   */
  readonly noise: number;
}

export const blckSize = (type: TypeName): number => TYPE[type].blckSize;
export const product = (ne: readonly number[]): number => ne.reduce((a, b) => a * b);

/** Strides of contiguous elements, in blocks. */
export const denseNb = (type: TypeName, ne: Four): Four => {
  const row = ne[0] / blckSize(type);
  return [1, row, row * ne[1], row * ne[1] * ne[2]];
};

export function createBuffer(type: TypeName, elements: number, init?: Float64Array): Buffer {
  return {
    type,
    init,
    value: Float64Array.from(init ?? { length: elements }),
    other: Float64Array.from(init ?? { length: elements }),
    inexact: new Uint8Array(elements),
  };
}

export const wholeOf = (buffer: Buffer, ne: Four): Window => ({ buffer, ne, nb: denseNb(buffer.type, ne), offset: 0 });

/** Index of element (i0, i1, i2, i3) in the buffer. */
function placeOf({ buffer, nb, offset }: Window, i0: number, i1: number, i2: number, i3: number): number {
  const block = blckSize(buffer.type);
  return (offset + Math.floor(i0 / block) * nb[0] + i1 * nb[1] + i2 * nb[2] + i3 * nb[3]) * block + (i0 % block);
}

/** Indices of all elements, in ne order. */
export function places(w: Window): Int32Array {
  const [n0, n1, n2, n3] = w.ne;
  const out = new Int32Array(product(w.ne));
  let at = 0;
  for (let i3 = 0; i3 < n3; i3++)
    for (let i2 = 0; i2 < n2; i2++) for (let i1 = 0; i1 < n1; i1++) for (let i0 = 0; i0 < n0; i0++) out[at++] = placeOf(w, i0, i1, i2, i3);
  return out;
}

export const isExact = (w: Window): boolean => places(w).every((i) => w.buffer.inexact[i] === 0);

/**
 * Largest relative error from storing an inexact number in a type, when its rounding falls the
 * other way.
 */
const STORE_NOISE: { readonly [type: string]: number } = { f32: 2 ** -16, f16: 2 ** -9, bf16: 2 ** -6, q8_0: 2 ** -6, q4_0: 2 ** -2 };

/**
 * Part of a step's noise that is relative to the size of its sources. Where terms cancel, the
 * result is small and its error is not.
 */
const CANCELLED = 2 ** -4;

const rmsOf = (x: Float64Array): number => {
  let power = 0;
  for (const v of x) if (Number.isFinite(v)) power += v * v;
  return Math.sqrt(power / x.length);
};

/** RMS of the first source, or typical size of a sum of products of the first two if larger. */
function sizeOf([a, b]: readonly (Window | null)[]): number {
  const [x, y] = [a, b].map((w) => (w ? rmsOf(Float64Array.from(places(w), (i) => w.buffer.value[i])) : 0));
  return a ? Math.max(x, x * y * Math.sqrt(a.ne[0])) : 0;
}

/** Runs a step. `random` in [0, 1) selects the direction of each perturbation. */
export function execute({ op, src, params, dst, noise }: Step, random: () => number): void {
  const { buffer } = dst;
  const at = places(dst);
  const exact = noise === 0 && src.every((s, i) => !s || (op === 'set_rows' && i === 0) || isExact(s));
  const view = (s: Window | null, of: 'value' | 'other'): View | null =>
    s && { type: wide(s.buffer.type) ? 'f32' : s.buffer.type, ne: s.ne, at: (...i) => s.buffer[of][placeOf(s, ...i)] };
  // ggml rounds activations to f16 or bf16 for such weights, and takes gelu from tables. Here
  // neither is done.
  const wide = (type: TypeName): boolean =>
    ['mul_mat', 'mul_mat_id', 'mul_mat_sparse', 'flash_attn_ext'].includes(op) && (type === 'f16' || type === 'bf16');
  // set_rows leaves some rows untouched. They are found by running it over zeros and over ones:
  // untouched elements differ.
  const sets = op === 'set_rows';
  const run = (of: 'value' | 'other', before = 0): Float64Array =>
    evaluateOn(
      op,
      src.map((s, i) => (sets && i === 0 ? { ...view(s, of)!, at: () => before } : view(s, of))),
      { ...params, precise: 1 },
      dst.ne,
    );
  const [zeros, ones] = sets ? [run('value', 0), run('value', 1)] : [];
  const left = (i: number): boolean => sets && !Object.is(zeros![i], ones![i]);
  // Copies without a change of type move the bits: quantised data is not quantised again.
  const moves = src[0]?.buffer.type === buffer.type && ['cont', 'cast', 'cpy'].includes(op);
  const store = (x: Float64Array): Float64Array => (moves ? x : stored(buffer.type, buffer.type.startsWith('i') ? x : x.map(Math.fround)));
  const value = store(run('value'));
  const other = exact ? value : store(run('other'));
  if (!exact) {
    const rms = rmsOf(value);
    const most = Math.max(noise, STORE_NOISE[buffer.type] ?? 0);
    const lost = noise * CANCELLED * sizeOf(src);
    for (let i = 0; i < other.length; i++)
      other[i] += (most * (Math.abs(other[i]) + rms) + lost) * (random() < 0.5 ? -0.5 - random() / 2 : 0.5 + random() / 2);
  }
  for (let i = 0; i < at.length; i++) {
    if (left(i)) continue;
    buffer.value[at[i]] = value[i];
    buffer.other[at[i]] = other[i];
    buffer.inexact[at[i]] = exact ? 0 : 1;
  }
}

/** Resets buffers to their state before the first step. */
export function reset(buffers: Iterable<Buffer>): void {
  for (const { init, value, other, inexact } of buffers) {
    inexact.fill(0);
    if (!init) continue;
    value.set(init);
    other.set(init);
  }
}

/**
 * Smallest tolerated relative error (single roundings of f32), and the multiple of the noise that
 * is tolerated.
 */
const LEAST = 1e-5;
const NOISES = 6;
/**
 * From here on (1/128 of the largest f32), intermediate sums may overflow although the result does
 * not.
 */
const NEAR_LARGEST = 2 ** 121;

/** Describes the first element of `got` (in ne order) that is wrong; '' if all are right. */
export function difference(w: Window, got: Float64Array): string {
  const { value, other, inexact } = w.buffer;
  const at = places(w);
  let power = 0;
  for (const i of at) if (Number.isFinite(value[i] - other[i])) power += (value[i] - other[i]) ** 2;
  const noise = Math.sqrt(power / at.length);
  for (let k = 0; k < at.length; k++) {
    const i = at[k];
    const want = value[i];
    if (got[k] === want || (Number.isNaN(got[k]) && Number.isNaN(want))) continue;
    // at the limit of the type's range
    if (inexact[i] && !Number.isFinite(other[i] - want)) continue;
    if (inexact[i] && !Number.isFinite(got[k]) && Math.abs(want) >= NEAR_LARGEST) continue;
    if (inexact[i] && Math.abs(got[k] - want) <= NOISES * Math.max(noise, Math.abs(want - other[i])) + LEAST * Math.abs(want)) continue;
    return `element ${k}: got ${got[k]}, want ${want}${inexact[i] ? ` (noise ${noise.toExponential(1)})` : ' exactly'}`;
  }
  return '';
}
